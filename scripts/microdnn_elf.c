/* Symbols of an ELF file of this machine, read from its section headers. */
#include "scripts/microdnn.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct elf_file {
    const char *bytes;
    size_t size;
} elf_file_t;

/* NULL: not within the file. */
static const void *at(const elf_file_t *file, uint64_t offset, uint64_t bytes)
{
    return offset <= file->size && bytes <= file->size - offset ? file->bytes + offset : NULL;
}

static const ElfW(Shdr) * section(const elf_file_t *file, uint64_t index)
{
    const ElfW(Ehdr) *const header = at(file, 0, sizeof *header);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || index >= header->e_shnum)
        return NULL;
    return at(file, header->e_shoff + index * sizeof(ElfW(Shdr)), sizeof(ElfW(Shdr)));
}

/* Whether the table of symbols defines `name` as a function or object. */
static bool table_defines(const elf_file_t *file, const ElfW(Shdr) * table, const char *name)
{
    const ElfW(Shdr) *const texts = section(file, table->sh_link);
    const ElfW(Sym) *const symbols = at(file, table->sh_offset, table->sh_size);
    const char *const text = texts != NULL ? at(file, texts->sh_offset, texts->sh_size) : NULL;
    const size_t length = strlen(name) + 1;
    if (symbols == NULL || text == NULL)
        return false;
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++)
        if (symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_name < texts->sh_size &&
            length <= texts->sh_size - symbols[i].st_name &&
            memcmp(text + symbols[i].st_name, name, length) == 0)
            return true;
    return false;
}

static bool any_table_defines(const elf_file_t *file, const char *name, bool exported)
{
    const ElfW(Shdr) * table;
    for (uint64_t i = 0; (table = section(file, i)) != NULL; i++)
        if ((table->sh_type == SHT_DYNSYM || (!exported && table->sh_type == SHT_SYMTAB)) &&
            table_defines(file, table, name))
            return true;
    return false;
}

static bool defines(const char *path, const char *name, bool exported)
{
    struct stat found;
    bool result = false;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    if (fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0) {
        void *const map = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (map != MAP_FAILED) {
            result = any_table_defines(&(elf_file_t){map, (size_t)found.st_size}, name, exported);
            munmap(map, (size_t)found.st_size);
        }
    }
    close(descriptor);
    return result;
}

bool tool_exports(const char *path, const char *name)
{
    return defines(path, name, true);
}

bool tool_defines(const char *path, const char *name)
{
    return defines(path, name, false);
}
