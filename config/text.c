#include "config/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 160, FIRST_CAPACITY = 4096 };

mdnn_status_t mdnn_text_add(mdnn_text_t *text, const char *format, ...)
{
    if (text->capacity - text->used < LONGEST) {
        const size_t capacity = text->capacity ? 2 * text->capacity : FIRST_CAPACITY;
        char *const grown = realloc(text->bytes, capacity);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        text->bytes = grown;
        text->capacity = capacity;
    }
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(text->bytes + text->used, LONGEST, format, arguments);
    va_end(arguments);
    if (written < 0 || written >= LONGEST)
        return MDNN_STATUS_OVERFLOW;
    text->used += (size_t)written;
    return MDNN_STATUS_OK;
}
