/* The files of pages, in a directory of base/file/run_directory.h. */
#ifndef GD_STATS_PAGE_PAGE_FILE_H
#define GD_STATS_PAGE_PAGE_FILE_H

#include <stddef.h>

enum { GD__PAGE_NAME = 96 };

/* Makes a file for a page: readable by its owner alone, of size bytes that are really there. It has a temporary name,
 * which is put into temporary, until gd__page_file_commit(). A descriptor or GD_E_... */
int gd__page_file_create(int directory, const char *name, size_t size, char temporary[GD__PAGE_NAME]);
int gd__page_file_commit(int directory, const char *temporary, const char *name);

/* Opens a file for reading if it is a plain file of the user's. A descriptor, or -1. */
int gd__page_file_read(int directory, const char *name);

/* Removes a file if it is still the one that fd is open on. */
void gd__page_file_remove(int directory, const char *name, int fd);

#endif
