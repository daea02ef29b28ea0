# SPDX-License-Identifier: GPL-2.0-only
# Prints how each test of the list (the first file) and each of its parts ended in the two guests
# (the second: lines "timers GUEST TEST END", "timers GUEST ticks CPUS" and "timers GUEST kernel
# complained"), and fails if Paratick's is the worse. Parts that passed in both are counted only.
function end(guest, name) { return (guest, name) in ended ? ended[guest, name] : "no end" }
function judge(name, stock, ours) {
	if (ours == "no end" || stock == "no end" || (stock == "pass" && ours != "pass"))
		worse = 1
	printf "%-24s%-10s%s\n", name, stock, ours
}
FNR == NR { names[++count] = $1; next }
{
	if ($3 ~ /\./ && !seen[$3]++)
		parts[++part_count] = $3
	ended[$2, $3] = $4
}
END {
	printf "%-24s%-10s%s\n", "", "tickless", "paratick"
	for (i = 1; i <= count; i++)
		judge(names[i], end("tickless", names[i]), end("paratick", names[i]))
	for (i = 1; i <= part_count; i++) {
		stock = end("tickless", parts[i])
		ours = end("paratick", parts[i])
		if (stock == "pass" && ours == "pass")
			passed++
		else
			judge(parts[i], stock, ours)
	}
	printf "parts that passed in both: %d\n", passed
	if (("paratick", "kernel") in ended) {
		print "the kernel of the guest with Paratick complained of itself"
		worse = 1
	}
	# Otherwise nothing was compared.
	if (end("tickless", "ticks") != 0 || end("paratick", "ticks") != 2) {
		printf "vCPUs with the host's ticks: %s and %s, expected 0 and 2\n",
			end("tickless", "ticks"), end("paratick", "ticks")
		worse = 1
	}
	exit worse
}
