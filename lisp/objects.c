/*
 * objects.c - objects live on the collector's heap, or among the static data of libraries, and begin with their type.
 */
#include "config.h"

#include "objects.h"

#include <gc/gc.h>
#include <link.h>
#include <stdint.h>

#define SEGMENTS_MAX 256
#define IMMEDIATE_MASK 7

struct segment {
	const char *low;
	const char *high;
};

static struct segment segments[SEGMENTS_MAX];
static int segment_count;

static int note_data(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < object->dlpi_phnum && segment_count < SEGMENTS_MAX; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || (part->p_flags & PF_X))
			continue;
		const char *low = (const char *)object->dlpi_addr + part->p_vaddr;
		segments[segment_count++] = (struct segment){.low = low, .high = low + part->p_memsz};
	}
	return 0;
}

void objects_init(void)
{
	dl_iterate_phdr(note_data, NULL);
}

/* Symbols and constants of libecl are static data. */
static bool is_memory(const char *at, size_t size)
{
	if (GC_is_heap_ptr(at))
		return GC_base((void *)at) == (const void *)at;
	for (int i = 0; i < segment_count; i++)
		if (at >= segments[i].low && at + size <= segments[i].high)
			return true;
	return false;
}

bool objects_is_object(cl_object object)
{
	if (!object)
		return false;
	switch (ECL_IMMEDIATE(object)) {
	case 0:
		return ((uintptr_t)object & IMMEDIATE_MASK) == 0 &&
			is_memory((const char *)object, sizeof(struct ecl_symbol)) && object->d.t > t_start &&
			object->d.t < t_end && object->d.t != t_frame;
	case t_list:
		return Null(object) || is_memory((const char *)object - t_list, sizeof(struct ecl_cons));
	default:
		return true; /* a character or a fixnum */
	}
}

bool objects_is_block(const void *at, size_t size)
{
	if (!GC_is_heap_ptr(at))
		return false;
	const char *base = GC_base((void *)at);

	return base && (const char *)at + size <= base + GC_size(base);
}
