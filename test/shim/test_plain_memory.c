/* Whose allocations are the collectives' library's, while functions of it are remembered. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/interpose/library_hooks.h"
#include "shim/vmem/plain_memory.h"

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

static void *remember_again(void *functions)
{
    while (!atomic_load(&over)) {
        mdnn_plain_memory_of(((void **)functions)[0]);
        mdnn_plain_memory_of(((void **)functions)[1]);
    }
    return NULL;
}

static void a_library_is_known_at_every_moment(void **state)
{
    enum { QUESTIONS = 3000000 };
    void *functions[] = {function_of("libnccl.so.2"), function_of("libnccl-other.so.2")};
    pthread_t other;
    int forgotten = 0;
    (void)state;
    assert_ptr_not_equal(functions[0], functions[1]);
    mdnn_plain_memory_of(functions[0]);
    assert_int_equal(pthread_create(&other, NULL, remember_again, functions), 0);
    for (int i = 0; i < QUESTIONS; i++)
        forgotten += !mdnn_plain_memory_wanted(functions[0]);
    atomic_store(&over, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(forgotten, 0);
}

static void so_is_each_copy_of_it(void **state)
{
    void *const first = function_of("libnccl-a.so.2"), *const second =
                                                           function_of("libnccl-b.so.2");
    (void)state;
    assert_ptr_not_equal(first, second);
    mdnn_plain_memory_of(first);
    mdnn_plain_memory_of(second);
    assert_true(mdnn_plain_memory_wanted(first) && mdnn_plain_memory_wanted(second));
}

static void other_libraries_are_not(void **state)
{
    void *const function = function_of("libother.so.2");
    (void)state;
    mdnn_plain_memory_of(function);
    assert_false(mdnn_plain_memory_wanted(function));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_known_at_every_moment),
        cmocka_unit_test(so_is_each_copy_of_it),
        cmocka_unit_test(other_libraries_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
