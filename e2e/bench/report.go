package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// series is the rounds of a comparison.
type series struct {
	name, other string
	most        float64 // the ratio that is allowed
	pairs       []pair
}

// median returns the median of a value of each round; for an even number of rounds,
// the mean of the middle two.
func median[T int64 | float64 | time.Duration](s series, of func(pair) T) T {
	values := make([]T, len(s.pairs))
	for i, p := range s.pairs {
		values[i] = of(p)
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// each returns the ratios of all rounds as text.
func (s series) each() string {
	ratios := make([]string, len(s.pairs))
	for i, p := range s.pairs {
		ratios[i] = fmt.Sprintf("%.3f", p.ratio())
	}
	return strings.Join(ratios, " ")
}

// report prints how much the bare proxy differs from itself. More than most is an
// error.
func (s series) report(w io.Writer, most float64) error {
	ratio := median(s, pair.ratio)
	fmt.Fprintf(w, "bare against bare: %.3f (rounds: %s)\n", ratio, s.each())
	if math.Abs(ratio-1) > most {
		return fmt.Errorf("the machine is too noisy: the bare proxy costs %.3f times itself, more than %g%% off; try again on a quiet machine, or with more -seconds",
			ratio, most*100)
	}
	return nil
}

// report prints the medians of all results and the ratio of each round. A ratio over
// its limit is an error.
func report(w io.Writer, results []series) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nmedian\tratio\tCPU/request\trequests/s\tp50\tp99\tpeak memory\trounds\t")
	row := func(name, ratio, rounds string, s series, of func(pair) sample) {
		fmt.Fprintf(table, "%s\t%s\t%v\t%.0f\t%v\t%v\t%.1f MiB\t%s\t\n", name, ratio,
			median(s, func(p pair) time.Duration { return of(p).perRequest() }).Round(10*time.Nanosecond),
			median(s, func(p pair) float64 { return float64(of(p).requests) / of(p).elapsed.Seconds() }),
			median(s, func(p pair) time.Duration { return of(p).p50 }),
			median(s, func(p pair) time.Duration { return of(p).p99 }),
			median(s, func(p pair) float64 { return float64(of(p).peak) / (1 << 20) }), rounds)
	}
	var over []string
	for _, s := range results {
		ratio := median(s, pair.ratio)
		row(s.name, fmt.Sprintf("%.3f", ratio), s.each(), s, func(p pair) sample { return p.subject })
		row("("+s.other+" beside it)", "", "", s, func(p pair) sample { return p.other })
		if ratio > s.most {
			over = append(over, fmt.Sprintf("%s %.3f (at most %g times %s)", s.name, ratio, s.most, s.other))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	if len(over) > 0 {
		return fmt.Errorf("too much: %s", strings.Join(over, ", "))
	}
	return nil
}
