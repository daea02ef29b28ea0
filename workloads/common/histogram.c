/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "histogram.h"

static unsigned int bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < HISTOGRAM_SUB_BUCKETS)
		return (unsigned int)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
	/* The leading bit stays in (value >> shift), so octaves follow one another. */
	return shift * HISTOGRAM_SUB_BUCKETS + (unsigned int)(value >> shift);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	if (!histogram->count || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->count++;
	histogram->sum += value;
	histogram->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	if (!from->count)
		return;
	if (!into->count || from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	into->count += from->count;
	into->sum += from->sum;
	for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
		into->buckets[bucket] += from->buckets[bucket];
}

uint64_t histogram_low(unsigned int bucket)
{
	unsigned int octave = bucket >> HISTOGRAM_SUB_BITS;

	if (octave == 0)
		return bucket;
	return (uint64_t)(bucket - (octave - 1) * HISTOGRAM_SUB_BUCKETS) << (octave - 1);
}

uint64_t histogram_high(unsigned int bucket)
{
	unsigned int octave = bucket >> HISTOGRAM_SUB_BITS;
	uint64_t width = octave == 0 ? 1 : UINT64_C(1) << (octave - 1);

	return histogram_low(bucket) + (width - 1);
}

uint64_t histogram_mean(const struct histogram *histogram)
{
	uint64_t quotient, rest;

	if (!histogram->count)
		return 0;
	quotient = histogram->sum / histogram->count;
	rest = histogram->sum % histogram->count;
	return quotient + (rest >= histogram->count - rest);
}

uint64_t histogram_percentile(const struct histogram *histogram, unsigned int percent)
{
	uint64_t rank, seen = 0;

	if (!histogram->count)
		return 0;
	rank = (uint64_t)(((unsigned __int128)histogram->count * percent + 99) / 100);
	for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		seen += histogram->buckets[bucket];
		if (seen >= rank && histogram->buckets[bucket]) {
			uint64_t high = histogram_high(bucket);

			return high < histogram->max ? high : histogram->max;
		}
	}
	return histogram->max;
}
