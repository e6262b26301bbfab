/* Descriptors of ours stay off 0, 1 and 2: see fd.c. */
#ifndef GD_BASE_FD_H
#define GD_BASE_FD_H

/* The same file at a number above 2, close-on-exec; fd itself if it is there already, or negative. Takes fd over. -1
 * with errno if there is no number left. */
int gd__fd_above_stdio(int fd);

/* Closes it unless it is negative; it is -1 then. */
void gd__fd_close(int *fd);

#endif
