/* Assertions of what must hold. In debug and sanitizer builds (MDNN_DEBUG) one that does not hold says so
 * on standard error and aborts the process; else the condition is neither evaluated nor compiled to
 * anything. Conditions have no side effects. For mistakes of ours only: what a program, a file or the
 * driver can cause is an error with a status. */
#ifndef MDNN_ASSERTION_H
#define MDNN_ASSERTION_H

#ifdef MDNN_DEBUG
_Noreturn void mdnn_assertion_failed(const char *condition, const char *file, int line);
#define MDNN_ASSERT(condition)                                                                     \
    ((condition) ? (void)0 : mdnn_assertion_failed(#condition, __FILE__, __LINE__))
#else
#define MDNN_ASSERT(condition) ((void)sizeof(condition))
#endif

#endif
