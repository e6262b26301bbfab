/* The files of pages, in a directory from base/file/run_directory.h. */
#ifndef GD_STATS_PAGE_PAGE_FILE_H
#define GD_STATS_PAGE_PAGE_FILE_H

#include <stddef.h>

enum { GD__PAGE_NAME = 96 };

/* Makes a file for a page, readable only by its owner, with size bytes that are really allocated. It has a temporary
 * name, which is stored in temporary, until gd__page_file_commit(). Returns a descriptor or GD_E_... */
int gd__page_file_create(int directory, const char *name, size_t size, char temporary[GD__PAGE_NAME]);
int gd__page_file_commit(int directory, const char *temporary, const char *name);

/* Opens a file for reading if it is a regular file of the user. Returns a descriptor, or -1. */
int gd__page_file_read(int directory, const char *name);

/* Removes a file if fd is still open on that same file. */
void gd__page_file_remove(int directory, const char *name, int fd);

#endif
