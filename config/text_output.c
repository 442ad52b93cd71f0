#include "config/text_output.h"

#include "config/numbers.h"

/* Length of the valid UTF-8 character at `text`, 0 if there is none. */
static unsigned utf8_length(const unsigned char *text)
{
    const unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    const unsigned length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    for (unsigned i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates, and what lies beyond the last character. */
    const bool bad = (first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
                     (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f);
    return bad ? 0 : length;
}

void mdnn_print_plain(const char *text, FILE *out)
{
    while (*text != '\0') {
        const unsigned length = utf8_length((const unsigned char *)text);
        /* U+0080 to U+009F are control characters too. */
        const bool control =
            (unsigned char)*text < 0x20 || *text == 0x7f ||
            (length == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0);
        if (length == 0 || control)
            fputc('?', out);
        else
            fwrite(text, 1, length, out);
        text += length > 0 ? length : 1;
    }
}

void mdnn_print_json_text(const char *text, FILE *out)
{
    fputc('"', out);
    while (*text != '\0') {
        const unsigned length = utf8_length((const unsigned char *)text);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20 || *text == 0x7f)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fwrite(text, 1, length, out);
        text += length > 0 ? length : 1;
    }
    fputc('"', out);
}

void mdnn_print_json_ms(const char *key, double value, FILE *out)
{
    char number[MDNN_NUMBER_BYTES];
    mdnn_format_decimal(value, MDNN_FRACTION_DIGITS, true, number, sizeof number);
    const bool finite = value >= 0 && value < 1e12;
    fprintf(out, ", \"%s\": %s", key, finite ? number : "null");
}
