/* Limits of control groups, in a directory that looks like a machine's root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "config/node/host_memory.h"

static char root[] = "/tmp/mdnn_host_memory_XXXXXX";
static uint64_t machine;

/* Directories are made on the way. */
static void write_file(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        (void)mkdir(full, 0700);
    }
    FILE *const file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int fresh_root(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    machine = mdnn_host_memory_bytes("/there/is/no/such/root");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void without_a_limit_the_machine_decides(void **state)
{
    (void)state;
    assert_true(machine > 1 << 20 && machine < UINT64_MAX);
    assert_int_equal(mdnn_host_memory_bytes(root), machine);
    write_file("proc/self/cgroup", "0::/a/b\n");
    write_file("sys/fs/cgroup/a/b/memory.max", "max\n");
    write_file("sys/fs/cgroup/a/memory.max", "9223372036854771712\n");
    assert_int_equal(mdnn_host_memory_bytes(root), machine);
}

static void a_group_of_version_2_limits(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/a/b\n");
    write_file("sys/fs/cgroup/a/b/memory.max", "1048576\n");
    assert_int_equal(mdnn_host_memory_bytes(root), 1048576);
}

/* The nearest, and one further out that is less still. */
static void groups_around_it_limit_too(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/a/b/c\n");
    write_file("sys/fs/cgroup/a/b/c/memory.max", "max\n");
    write_file("sys/fs/cgroup/a/b/memory.max", "1048576\n");
    assert_int_equal(mdnn_host_memory_bytes(root), 1048576);
    write_file("sys/fs/cgroup/a/memory.max", "4096\n");
    assert_int_equal(mdnn_host_memory_bytes(root), 4096);
}

/* The path is the host's, what is mounted is the container's. */
static void in_a_container_the_mount_itself_limits(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "12:cpu,cpuacct:/docker/1\n5:memory:/docker/1\n0::/x\n");
    write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
    assert_int_equal(mdnn_host_memory_bytes(root), 2097152);
    write_file("proc/self/cgroup", "0::/\n");
    write_file("sys/fs/cgroup/memory.max", "8192");
    assert_int_equal(mdnn_host_memory_bytes(root), 8192);
}

static void a_group_of_version_1_limits(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "3:cpu:/a\n2:hugetlb,memory:/a/b\n1:name=systemd:/a\n");
    write_file("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n");
    write_file("sys/fs/cgroup/a/b/memory.max", "1\n"); /* not this one's */
    assert_int_equal(mdnn_host_memory_bytes(root), 1048576);
}

static uint64_t scope_of(uint64_t bytes)
{
    mdnn_node_limits_t limits;
    mdnn_host_memory_limits(root, &limits);
    assert_true(limits.count >= 1 && limits.count <= MDNN_NODE_LIMITS);
    for (size_t i = 0; i < limits.count; i++)
        if (limits.limits[i].bytes == bytes)
            return limits.limits[i].scope;
    return UINT64_MAX; /* no such limit */
}

/* A process further in names the group by the same number as one in it, and the machine by none. */
static void each_limit_says_whom_it_binds(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/a/b\n");
    write_file("sys/fs/cgroup/a/b/memory.max", "4096\n");
    write_file("sys/fs/cgroup/a/memory.max", "8192\n");
    const uint64_t inner = scope_of(4096), outer = scope_of(8192);
    assert_true(inner != outer && inner != 0 && outer != 0 && inner != UINT64_MAX);
    assert_int_equal(scope_of(machine), 0);
    write_file("proc/self/cgroup", "0::/a\n");
    assert_int_equal(scope_of(8192), outer);
    assert_int_equal(scope_of(4096), UINT64_MAX);
}

static void of_many_groups_the_least_are_kept(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/a/b/c/d/e\n");
    write_file("sys/fs/cgroup/a/memory.max", "1000000\n");
    write_file("sys/fs/cgroup/a/b/memory.max", "2000000\n");
    write_file("sys/fs/cgroup/a/b/c/memory.max", "3000\n");
    write_file("sys/fs/cgroup/a/b/c/d/memory.max", "4000000\n");
    write_file("sys/fs/cgroup/a/b/c/d/e/memory.max", "5000000\n");
    assert_true(scope_of(3000) != UINT64_MAX && scope_of(1000000) != UINT64_MAX);
    assert_int_equal(scope_of(5000000), UINT64_MAX);
    assert_int_equal(mdnn_host_memory_bytes(root), 3000);
}

static void lines_that_make_no_sense_are_passed_over(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "\n::\n7\n7:memory\n:memory:\n0::../../up\n");
    write_file("sys/fs/cgroup/memory.max", "many\n");
    assert_int_equal(mdnn_host_memory_bytes(root), machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_limit_the_machine_decides, fresh_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(a_group_of_version_2_limits, fresh_root, remove_root),
        cmocka_unit_test_setup_teardown(groups_around_it_limit_too, fresh_root, remove_root),
        cmocka_unit_test_setup_teardown(in_a_container_the_mount_itself_limits, fresh_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(a_group_of_version_1_limits, fresh_root, remove_root),
        cmocka_unit_test_setup_teardown(each_limit_says_whom_it_binds, fresh_root, remove_root),
        cmocka_unit_test_setup_teardown(of_many_groups_the_least_are_kept, fresh_root, remove_root),
        cmocka_unit_test_setup_teardown(lines_that_make_no_sense_are_passed_over, fresh_root,
                                        remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
