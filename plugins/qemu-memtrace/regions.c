// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges the guest may own before its first instruction: image, interpreter, stack. QEMU maps them
 * without a system call of the guest's, so they are the difference between QEMU's own maps when
 * the plugin was loaded and those at the first translated block. The difference also holds a few
 * of QEMU's own ranges; the converter keeps only those the guest touches.
 */
#include "regions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

#define MAX_REGIONS 4096

struct region {
	uint64_t start, end, prot;
};

static struct region *before;
static size_t before_count;

static size_t read_maps(struct region *regions)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	size_t count = 0;

	if (!maps)
		return 0;
	while (count < MAX_REGIONS && fgets(line, sizeof(line), maps)) {
		struct region *r = &regions[count];
		char rights[5];

		/* A long path spills into the next read, which then does not parse: skipped. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &r->start, &r->end, rights) != 3)
			continue;
		r->prot = (rights[0] == 'r') | (rights[1] == 'w') << 1 | (rights[2] == 'x') << 2;
		count++;
	}
	fclose(maps);
	return count;
}

void regions_remember(void)
{
	before = calloc(MAX_REGIONS, sizeof(*before));
	if (before)
		before_count = read_maps(before);
}

static void send_region(uint64_t start, uint64_t end, uint64_t prot, uint64_t guest_base)
{
	struct region_body body = { start - guest_base, end - start, prot };

	if (start >= guest_base && start < end)
		stream_send(MSG_REGION, 0, &body, sizeof(body));
}

void regions_send_new(uint64_t guest_base)
{
	struct region *now = calloc(MAX_REGIONS, sizeof(*now));
	size_t count = now && before ? read_maps(now) : 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t at = now[i].start;

		/* Both lists ascend: cut out of this range all that was there before. */
		for (size_t j = 0; j < before_count && at < now[i].end; j++) {
			if (before[j].end <= at || before[j].start >= now[i].end)
				continue;
			send_region(at, before[j].start, now[i].prot, guest_base);
			at = before[j].end;
		}
		send_region(at, now[i].end, now[i].prot, guest_base);
	}
	free(now);
	free(before);
	before = NULL;
}
