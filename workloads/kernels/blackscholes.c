/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Prices European options by the Black-Scholes formula, several passes over a portfolio kept as
 * separate columns. Stands in for PARSEC's Blackscholes: threads stream through slices of shared
 * arrays that are far larger than any cache.
 *
 * Check, independent of the code that prices: put-call parity (call - put = S - K exp(-rT)) on
 * every option, and, on a sample, the expectation itself: the discounted payoff integrated
 * numerically over the normal density by Simpson's rule.
 *
 * Usage: blackscholes [threads 1..64] [options 1000..10000000] [passes 1..1000]
 */
#include <math.h>

#include "kernel.h"

static double *spot, *strike, *rate, *volatility, *years, *call, *put;

static double normal_below(double x)
{
	return 0.5 * erfc(-x * 0.70710678118654752440);
}

static void price(struct slice *s)
{
	for (long i = s->from; i < s->to; i++) {
		double spread = volatility[i] * sqrt(years[i]);
		double d1 = (log(spot[i] / strike[i]) +
			     (rate[i] + 0.5 * volatility[i] * volatility[i]) * years[i]) / spread;
		double d2 = d1 - spread;
		double later = strike[i] * exp(-rate[i] * years[i]);

		call[i] = spot[i] * normal_below(d1) - later * normal_below(d2);
		put[i] = later * normal_below(-d2) - spot[i] * normal_below(-d1);
	}
}

/* The call's value as the mean of what it pays, by Simpson's rule over +-10 deviations. */
static double call_by_integration(long i)
{
	const int steps = 20000;
	double spread = volatility[i] * sqrt(years[i]);
	double drift = (rate[i] - 0.5 * volatility[i] * volatility[i]) * years[i];
	/* Below this the option pays nothing; beginning here keeps the integrand smooth. */
	double from = (log(strike[i] / spot[i]) - drift) / spread, to = 10.0 + spread;
	double width, sum = 0;

	if (from < -10)
		from = -10;
	if (from >= to)
		return 0;
	width = (to - from) / steps;
	for (int step = 0; step <= steps; step++) {
		double z = from + step * width;
		double pays = spot[i] * exp(drift + spread * z) - strike[i];
		double weight = step == 0 || step == steps ? 1 : step % 2 ? 4 : 2;

		sum += weight * pays * exp(-0.5 * z * z);
	}
	return exp(-rate[i] * years[i]) * sum * width / 3 * 0.39894228040143267794;
}

/* A number from low to high. */
static double between(uint64_t *seed, double low, double high)
{
	return low + (high - low) * (double)(next_random(seed) >> 11) * 0x1p-53;
}

int main(int argc, char **argv)
{
	int threads = (int)argument(argc, argv, 1, 8, 1, MAX_THREADS);
	long options = argument(argc, argv, 2, 20000, 1000, 10000000);
	long passes = argument(argc, argv, 3, 4, 1, 1000);
	double **columns[] = { &spot, &strike, &rate, &volatility, &years, &call, &put };
	double worst = 0, worst_sample = 0;
	uint64_t seed = 2020;

	for (int i = 0; i < 7; i++)
		*columns[i] = allocate((size_t)options * sizeof(double));
	for (long i = 0; i < options; i++) {
		spot[i] = between(&seed, 20, 120);
		strike[i] = between(&seed, 20, 120);
		rate[i] = between(&seed, 0.01, 0.1);
		volatility[i] = between(&seed, 0.05, 0.6);
		years[i] = between(&seed, 0.1, 2);
	}
	trace_start();
	for (long pass = 0; pass < passes; pass++)
		in_parallel(threads, options, price);
	trace_stop();

	for (long i = 0; i < options; i++) {
		double parity = spot[i] - strike[i] * exp(-rate[i] * years[i]);

		worst = fmax(worst, fabs(call[i] - put[i] - parity));
	}
	for (long i = 0; i < options; i += options / 100)
		worst_sample = fmax(worst_sample, fabs(call[i] - call_by_integration(i)));
	printf("blackscholes: %ld options, parity %s 1e-11, integral %s 1e-6\n", options,
	       worst < 1e-11 ? "within" : "BEYOND", worst_sample < 1e-6 ? "within" : "BEYOND");
	return !(worst < 1e-11 && worst_sample < 1e-6);
}
