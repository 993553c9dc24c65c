/* said.c, as libtiff.pyx uses it. */
#ifndef TOOLKIT_LIBTIFF_H
#define TOOLKIT_LIBTIFF_H

#define LIBTIFF_SAID 512 /* bytes of a message that are kept, its zero included */

/* Hear the libtiff that a loaded module calls. Returns 0 when it isn't loaded, or calls none that can be told. */
int libtiff_attach(const char *module_path);

/* Keep what libtiff says on this thread from now on, or leave it to whoever heard it before. */
void libtiff_listen(int on);

/* Copy the first message that this thread kept to `text`, of LIBTIFF_SAID bytes, and forget it; "" when there is none. */
void libtiff_take(char *text);

#endif
