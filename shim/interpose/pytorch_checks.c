/* PyTorch's failed checks pass through here, so that a program which meets a limit of the allocator that a budget gives
 * it is told the way out. Both entries have the names and the types of c10::detail::torchCheckFail; a std::string is
 * known by its first two members, the text and its length (libstdc++'s C++11 ABI). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "shim/real/loaded_object.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

#define OF_TEXT "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
#define OF_STRING                                                                                  \
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

typedef struct string {
    const char *text;
    size_t bytes;
} string_t;

typedef void (*fail_t)(const char *function, const char *file, uint32_t line, const void *what);

static bool begins_with(string_t text, const char *word)
{
    return text.bytes >= strlen(word) && memcmp(text.text, word, strlen(word)) == 0;
}

/* "cudaMallocAsync does not yet support shareIpcHandle. If you need it, ..." */
static void look_at(string_t said)
{
    static const char verb[] = " does not yet support ";
    const char *const at = begins_with(said, "cudaMallocAsync")
                               ? memmem(said.text, said.bytes, verb, sizeof verb - 1)
                               : NULL;
    if (!at || mdnn_process_state() != MDNN_PROCESS_ACTIVE || !mdnn_virtual_on())
        return;
    const char *const what = at + sizeof verb - 1;
    const size_t left = said.bytes - (size_t)(what - said.text);
    const char *const end = memchr(what, '.', left);
    const string_t name = {what, end ? (size_t)(end - what) : left};
    const bool shares = memmem(name.text, name.bytes, "Ipc", 3) != NULL;
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "PyTorch's allocator cudaMallocAsync, which a budget chooses, has no %.*s: run the "
        "program with `microdnn run --allocator %s`, or set PYTORCH_ALLOC_CONF=%s",
        (int)name.bytes, name.text, shares ? "expandable" : "native",
        shares ? "expandable_segments:True" : "backend:native");
}

/* The real one throws. */
static _Noreturn void pass_on(const char *symbol, const void *caller, const char *function,
                              const char *file, uint32_t line, const void *what)
{
    fail_t real = NULL;
    void *const found = mdnn_object_find(caller, symbol);
    memcpy(&real, &found, sizeof real);
    if (real)
        real(function, file, line, what);
    abort(); /* there was no PyTorch that could call this */
}

_Noreturn __attribute__((visibility("default"))) void
mdnn_check_failed_text(const char *function, const char *file, uint32_t line,
                       const char *what) __asm__(OF_TEXT);
_Noreturn __attribute__((visibility("default"))) void
mdnn_check_failed_string(const char *function, const char *file, uint32_t line,
                         const string_t *what) __asm__(OF_STRING);

void mdnn_check_failed_text(const char *function, const char *file, uint32_t line, const char *what)
{
    if (what)
        look_at((string_t){what, strlen(what)});
    pass_on(OF_TEXT, __builtin_return_address(0), function, file, line, what);
}

void mdnn_check_failed_string(const char *function, const char *file, uint32_t line,
                              const string_t *what)
{
    look_at(*what);
    pass_on(OF_STRING, __builtin_return_address(0), function, file, line, what);
}
