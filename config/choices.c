#include "config/choices.h"

#include <stddef.h>

#define CHOICES_BEGIN(section, key, type) const char *const mdnn_choices_##section##_##key[] = {
#define CHOICE(word, constant) #word,
#define CHOICES_END(section, key, type, count)                                                     \
    NULL                                                                                           \
    }                                                                                              \
    ;
#include "config/choices.def"
#undef CHOICES_BEGIN
#undef CHOICE
#undef CHOICES_END
