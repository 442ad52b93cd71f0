/* PyTorch's libc10.so and libc10_cuda.so as far as failed checks go: FAKE_CALLER makes the second one, which calls the
 * first. The real functions throw; these print what they were given and end the process. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As a std::string of libstdc++ begins; the rest is text that fits into it. */
typedef struct string {
    const char *text;
    size_t bytes;
    char own[16];
} string_t;

#define PUBLIC __attribute__((visibility("default")))
#define OF_TEXT "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
#define OF_STRING                                                                                  \
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

PUBLIC void fail_text(const char *function, const char *file, uint32_t line,
                      const char *what) __asm__(OF_TEXT);
PUBLIC void fail_string(const char *function, const char *file, uint32_t line,
                        const string_t *what) __asm__(OF_STRING);

#ifdef FAKE_CALLER
PUBLIC void fail_check(const char *what, int as_string);
void fail_check(const char *what, int as_string)
{
    const string_t string = {what, strlen(what), ""};
    if (as_string)
        fail_string("function", "file.cpp", 7, &string);
    else
        fail_text("function", "file.cpp", 7, what);
}
#else
static void end(const char *function, const char *file, uint32_t line, const char *what,
                size_t bytes)
{
    printf("%s of %s:%u: %.*s\n", function, file, line, (int)bytes, what);
    fflush(stdout);
    exit(3);
}

void fail_text(const char *function, const char *file, uint32_t line, const char *what)
{
    end(function, file, line, what, strlen(what));
}

void fail_string(const char *function, const char *file, uint32_t line, const string_t *what)
{
    end(function, file, line, what->text, what->bytes);
}
#endif
