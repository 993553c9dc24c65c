/* Open a file below a folder, wherever links on the way would lead. */
#ifndef TOOLKIT_OPEN_BENEATH_H
#define TOOLKIT_OPEN_BENEATH_H

/* Return a descriptor of the file at `path` below the folder `root`, or -errno: EXDEV where a link leads out of the root
   or isn't followed. Never waits for a pipe. `walk`: part by part, following no link at all, as without openat2. */
int tk_open_beneath(int root, const char *path, int walk);

#endif
