/* Prints text of any origin so that it does no harm, and values as JSON. */
#ifndef MDNN_TEXT_OUTPUT_H
#define MDNN_TEXT_OUTPUT_H

#include <stdio.h>

/* `text` as UTF-8 without control characters: safe for a terminal. */
void mdnn_print_plain(const char *text, FILE *out);
/* `text` as a string of JSON, with its quotes. */
void mdnn_print_json_text(const char *text, FILE *out);
/* , "key": and the number, or null for what JSON has no number for. */
void mdnn_print_json_ms(const char *key, double value, FILE *out);

#endif
