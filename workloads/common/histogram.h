/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Log-linear histogram of unsigned 64-bit values: 32 sub-buckets per power of
 * two, so a bucket is exact below 64 and never wider than 1/32 of its lower
 * bound. Count, sum, minimum and maximum are exact. Fixed size, no allocation
 * while measuring; merging two histograms loses nothing.
 */
#ifndef STEADY_HISTOGRAM_H
#define STEADY_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 5
#define HISTOGRAM_SUB_BUCKETS (1 << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB_BUCKETS)

struct histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t min; /* 0 while empty */
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* Bounds of a bucket, both inclusive. */
uint64_t histogram_low(unsigned int bucket);
uint64_t histogram_high(unsigned int bucket);

/* Mean rounded to the nearest, halves up; 0 when empty. */
uint64_t histogram_mean(const struct histogram *histogram);

/*
 * Smallest upper bucket bound that at least @percent per cent of the values do
 * not exceed (nearest rank), never above the maximum; 0 when empty.
 */
uint64_t histogram_percentile(const struct histogram *histogram, unsigned int percent);

#endif
