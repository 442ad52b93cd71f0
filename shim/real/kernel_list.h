/* Kernels that reach memory which is neither named by a parameter nor found by following pointers. They are kept in a
 * file, with one mangled name per line, to which `microdnn verify` adds the kernels that it finds; lines that begin
 * with # are comments. A name in the file makes a kernel's launch use more memory, never less. Thread-safe. */
#ifndef MDNN_KERNEL_LIST_H
#define MDNN_KERNEL_LIST_H

#include <stdbool.h>

/* Reads the file; called once. Before that the list is empty. `~/` at the start of the path is the home directory. If
 * the path is "" or the file does not exist, there are no kernels. Any other error is logged with the file's name, and
 * a line that is not a name also with its number. `named`: the user named the path; else a file that cannot be read
 * is no trouble, and the line is for those who want to know. */
void mdnn_kernel_list_open(const char *path, bool named);
bool mdnn_kernel_list_any(void);
bool mdnn_kernel_list_has(const char *name);

/* Adds the name to the file and logs that, unless the name is already in the list or no file was opened. Makes missing
 * folders below the home directory. The list itself stays as it is. */
void mdnn_kernel_list_learn(const char *name);

#endif
