/* Whose allocations are a library's own. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/real/real.h"
#include "shim/real/plain_memory.h"
#include "test/unit/cases.h"

mdnn_dlsym_function_t mdnn_real_dlsym(void)
{
    return dlsym;
}

/* ---- tests ---- */

/* A copy of the library under that name. */
static void *function_of(const char *name)
{
    char command[1024], path[512];
    assert_true(snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR"), name) < (int)sizeof path);
    assert_true(snprintf(command, sizeof command, "cp '%s/test/libraries/libnccl.so.2' '%s'",
                         getenv("MDNN_BUILD"), path) < (int)sizeof command);
    assert_int_equal(system(command), 0);
    void *const library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    assert_non_null(library);
    return dlsym(library, "ncclGroupEnd");
}

static _Atomic bool over;

/* Whose libraries come and go meanwhile. */
static void *load_others(void *unused)
{
    while (!atomic_load(&over)) {
        void *const other = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
        assert_non_null(other);
        assert_int_equal(dlclose(other), 0);
    }
    return unused;
}

CASE(a_library_is_known_at_every_moment)
{
    enum { QUESTIONS = 300000 };
    void *const function = function_of("libnccl.so.2");
    pthread_t other;
    int forgotten = 0;
    assert_int_equal(pthread_create(&other, NULL, load_others, NULL), 0);
    for (int i = 0; i < QUESTIONS; i++)
        forgotten += mdnn_plain_memory_wanted(function) != MDNN_PLAIN_ALWAYS;
    atomic_store(&over, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(forgotten, 0);
}

CASE(its_name_decides)
{
    static const struct {
        const char *file;
        mdnn_plain_memory_t wanted;
    } files[] = {
        {"libnccl-0f2c.so.2", MDNN_PLAIN_ALWAYS},      {"libcufft.so.12", MDNN_PLAIN_IF_ROOM},
        {"libcufft-1a2b.so.11", MDNN_PLAIN_IF_ROOM},   {"libcusolver.so.12", MDNN_PLAIN_IF_ROOM},
        {"libcusolverMg.so.12", MDNN_PLAIN_IF_ROOM},   {"libcusparse.so.12", MDNN_PLAIN_IF_ROOM},
        {"libmagma.so.2", MDNN_PLAIN_IF_ROOM},         {"libmagma_sparse.so", MDNN_PLAIN_IF_ROOM},
        {"libnppif.so.13", MDNN_PLAIN_IF_ROOM},        {"libcublas.so.13", MDNN_PLAIN_NEVER},
        {"libmagma_of_mine.so", MDNN_PLAIN_NEVER},     {"libcufft_plugin.so", MDNN_PLAIN_NEVER},
        {"libtorch_cuda_linalg.so", MDNN_PLAIN_NEVER}, {"mylibcufft.so.12", MDNN_PLAIN_NEVER},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(mdnn_plain_memory_wanted(function_of(files[i].file)), files[i].wanted);
}

/* Often another library gets the addresses of one that is closed. */
CASE(one_that_is_closed_stands_for_no_other)
{
    for (int i = 0; i < 8; i++) {
        char name[64];
        Dl_info info;
        void *function;
        (void)snprintf(name, sizeof name, i % 2 == 0 ? "libcufft.so.%d" : "libother.so.%d", 50 + i);
        function = function_of(name);
        assert_int_equal(mdnn_plain_memory_wanted(function),
                         i % 2 == 0 ? MDNN_PLAIN_IF_ROOM : MDNN_PLAIN_NEVER);
        assert_int_not_equal(dladdr(function, &info), 0);
        void *const library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        assert_non_null(library);
        assert_int_equal(dlclose(library) + dlclose(library), 0);
    }
}

CASE(the_program_is_no_library)
{
    static const char here = 0;
    assert_int_equal(mdnn_plain_memory_wanted(&here), MDNN_PLAIN_NEVER);
    assert_int_equal(mdnn_plain_memory_wanted(NULL), MDNN_PLAIN_NEVER);
}

CASE(what_is_done_for_nccl_is_nccls)
{
    static const char here = 0;
    mdnn_nccl_enter();
    assert_int_equal(mdnn_plain_memory_wanted(&here), MDNN_PLAIN_ALWAYS);
    mdnn_nccl_leave();
    assert_int_equal(mdnn_plain_memory_wanted(&here), MDNN_PLAIN_NEVER);
}

int main(void)
{
    return run_cases("plain_memory");
}
