/* Loops of clients spread over the processors. */
#ifndef PARALLEL_H
#define PARALLEL_H

/* Calls piece(context, 0) to piece(context, pieces - 1), each once, from this thread and from
 * others, one for each further processor online; returns when all have. Which thread takes which
 * piece is left to chance, so a result must not hang on it. With one piece, or where no thread can
 * be started, all run here. */
void parallel_for(int pieces, void (*piece)(void *context, int index), void *context);

#endif
