/* Enumerations of the options that accept one of a few words, made from config/choices.def. The option holds the number
 * of the word. mdnn_choices_SECTION_KEY[number] is the word, and NULL ends that list. */
#ifndef MDNN_CHOICES_H
#define MDNN_CHOICES_H

#define CHOICES_BEGIN(section, key, type) typedef enum type {
#define CHOICE(word, constant) constant,
#define CHOICES_END(section, key, type, count)                                                     \
    count                                                                                          \
    }                                                                                              \
    type##_t;
#include "config/choices.def"
#undef CHOICES_BEGIN
#undef CHOICE
#undef CHOICES_END

#define CHOICES_BEGIN(section, key, type) extern const char *const mdnn_choices_##section##_##key[];
#define CHOICE(word, constant)
#define CHOICES_END(section, key, type, count)
#include "config/choices.def"
#undef CHOICES_BEGIN
#undef CHOICE
#undef CHOICES_END

#endif
