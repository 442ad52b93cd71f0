/* For tests of mdnn_X_is_valid: breaks a rule in a child and says whether the check names it. A test
 * includes this, which has the checks whatever the build is, and then the files of the checks. */
#ifndef MDNN_TEST_BROKEN_RULE_H
#define MDNN_TEST_BROKEN_RULE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef MDNN_DEBUG
#define MDNN_DEBUG
#include "config/rule.c"
#else
#include "config/rule.h"
#endif

/* Something that is made anew for each child. */
typedef struct broken_rule {
    const char *rule; /* a part of what the check says */
    void (*breaks)(void *structure);
} broken_rule_t;

typedef const char *first_broken_t(const void *structure);

/* The structure is valid as it is; in a child `breaks` makes it break the rule. Whether that is found. */
static inline bool finds(first_broken_t *first_broken, void *structure, const broken_rule_t *rule)
{
    int status;
    const char *broken = first_broken(structure);
    if (broken) {
        fprintf(stderr, "broken before: %s\n", broken);
        return false;
    }
    const pid_t child = fork();
    if (child == 0) {
        rule->breaks(structure);
        broken = first_broken(structure);
        if (broken && strstr(broken, rule->rule))
            _exit(0);
        fprintf(stderr, "wanted: %s\nfound:  %s\n", rule->rule, broken ? broken : "nothing");
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

#endif
