/*
 * boot.h - starting Lisp, once, in the zygote.
 */
#ifndef BOOT_H
#define BOOT_H

/* Sets the stack limit that Lisp will live with; runs the program anew if it was another one. */
void boot_raise_stack(char **argv);

/* Boots ECL, loads what every session wants to find, and the runtime. Exits with a line in the log if it cannot. */
void boot_lisp(char *program);

/* "ECL 21.2.1" */
const char *boot_lisp_version(void);

#endif
