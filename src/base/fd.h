/* Keeps our descriptors off 0, 1 and 2: see fd.c. */
#ifndef GD_BASE_FD_H
#define GD_BASE_FD_H

/* Moves fd to a number above 2, close-on-exec, and returns that number. Returns fd itself if it is above 2 or negative.
 * Takes ownership of fd. Returns -1 with errno if no number is left. */
int gd__fd_above_stdio(int fd);

/* Closes *fd unless it is negative, and sets it to -1. */
void gd__fd_close(int *fd);

#endif
