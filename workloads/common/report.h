/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The result line: one JSON object, schema "steady.workload" version 1, the
 * only thing a guest program writes to stdout. Integers only; the unit says
 * the scale. Percentiles are bucket bounds (see histogram.h); count, sum, min
 * and max of a distribution are exact.
 */
#ifndef STEADY_REPORT_H
#define STEADY_REPORT_H

#include <stdint.h>

#include "histogram.h"

enum better { BETTER_LOWER, BETTER_HIGHER, BETTER_NEUTRAL };

/*
 * Names are lower-case letters, digits, '_' and dots; units are those of the
 * schema: ns, count, ops/ks.
 */
void report_metric(const char *name, const char *unit, enum better better, uint64_t value);

/* Also adds the metrics NAME.mean, .p50, .p90, .p99 and .max, if there are values. */
void report_latency(const char *name, const struct histogram *histogram);

/*
 * How many things were done in how long: the metrics NAME.operations, NAME.time
 * and "throughput" (per 1000 s, so that slow machines keep their digits). The
 * plain name "time" is left to whoever measures the whole process.
 */
void report_work(const char *name, uint64_t operations, uint64_t time_ns);

/* Prints the line; ends the process if stdout does not take it. */
void report_print(const char *program);

#endif
