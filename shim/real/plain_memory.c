#include "shim/real/plain_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/loaded_object.h"

/* The name of a file begins so. `whole`: then comes the version, or the mark of a tool that renamed it (auditwheel). */
static const struct {
    const char *start;
    bool whole;
    mdnn_plain_memory_t wanted;
} libraries[] = {
    {"libnccl", false, MDNN_PLAIN_ALWAYS},
    {"libcufft", true, MDNN_PLAIN_IF_ROOM},
    {"libcufftMp", true, MDNN_PLAIN_IF_ROOM},
    {"libcusolver", true, MDNN_PLAIN_IF_ROOM},
    {"libcusolverMg", true, MDNN_PLAIN_IF_ROOM},
    {"libcusolverMp", true, MDNN_PLAIN_IF_ROOM},
    {"libcusparse", true, MDNN_PLAIN_IF_ROOM},
    {"libmagma", true, MDNN_PLAIN_IF_ROOM},
    {"libmagma_sparse", true, MDNN_PLAIN_IF_ROOM},
    {"libnpp", false, MDNN_PLAIN_IF_ROOM}, /* libnppc, libnppif, ... */
};

/* Calls of NCCL under way. initial-exec: see shim/real/process.c. */
static _Thread_local uint32_t calls __attribute__((tls_model("initial-exec")));

void mdnn_nccl_enter(void)
{
    calls++;
}

void mdnn_nccl_leave(void)
{
    calls--;
}

static bool begins(const char *name, const char *start, bool whole)
{
    const size_t length = strlen(start);
    return strncmp(name, start, length) == 0 &&
           (!whole || name[length] == '.' || name[length] == '-');
}

mdnn_plain_memory_t mdnn_plain_memory_wanted(const void *caller)
{
    if (calls > 0)
        return MDNN_PLAIN_ALWAYS;
    const char *const path = mdnn_object_path(caller), *const slash = strrchr(path, '/');
    const char *const name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (begins(name, libraries[i].start, libraries[i].whole) &&
            !(MDNN_FAULT(LIBRARYS_OWN_MEMORY_LEAVES) && libraries[i].wanted != MDNN_PLAIN_ALWAYS))
            return libraries[i].wanted;
    return MDNN_PLAIN_NEVER;
}
