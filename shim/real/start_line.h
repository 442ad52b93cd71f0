/* One line of the log when the library begins to work for a program: its version, the GPU, and what is on. */
#ifndef MDNN_START_LINE_H
#define MDNN_START_LINE_H

/* Called whenever something begins on a device; the first call writes the line, if statistics for people are on.
 * Thread-safe. */
void mdnn_start_line(int device);

#endif
