package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// series is the rounds of a comparison.
type series struct {
	comparison
	pairs []pair
}

// ratio is the ratio of a round.
func (s series) ratio(p pair) float64 {
	if s.task.load == nil {
		return p.holds()
	}
	return p.costs()
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

// verdict returns the goal, and whether the median meets it.
func (s series) verdict() string {
	ratio := median(s, s.ratio)
	if s.noise > 0 {
		return fmt.Sprintf("%.2f to %.2f, %s", 1-s.noise, 1+s.noise, met(math.Abs(ratio-1) <= s.noise))
	}
	if s.rate > 0 {
		return fmt.Sprintf("%.0f/s, %s", s.rate, met(median(s, rate) >= s.rate))
	}
	if s.goal == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f, %s", s.goal, met(ratio <= s.goal))
}

func met(is bool) string {
	if is {
		return "met"
	}
	return "not met"
}

// fault returns why the median fails the run, or the empty string.
func (s series) fault() string {
	ratio := median(s, s.ratio)
	switch {
	case s.noise > 0 && math.Abs(ratio-1) > s.noise:
		return fmt.Sprintf("the machine is too noisy: %s costs %.3f times itself, more than %g %% off; "+
			"try again on a quiet machine, or with more -seconds", s.name(), ratio, s.noise*100)
	case s.task.flat > 0 && median(s, grown) > s.task.flat:
		return fmt.Sprintf("the memory is not flat: %s needs %s more (at most %s)",
			s.name(), mebibytes(median(s, grown)), mebibytes(s.task.flat))
	case s.most > 0 && ratio > s.most:
		return fmt.Sprintf("too much: %s %.3f (at most %g times the %s)", s.name(), ratio, s.most, s.other)
	}
	return ""
}

// report prints the medians of all results as a table in Markdown. It returns an error if
// a ratio is over its limit or the machine is too noisy.
func report(w io.Writer, results []series) error {
	table := [][]string{{"Requests", "Server", "Ratio", "Goal", "CPU of a request", "Memory"}}
	var faults []string
	for _, s := range results {
		if fault := s.fault(); fault != "" {
			faults = append(faults, fault)
		}
		table = append(table, []string{s.task.name, s.label(), fmt.Sprintf("%.3f", median(s, s.ratio)), s.verdict(),
			short(median(s, func(p pair) time.Duration { return p.subject.perRequest() })), s.memory()})
	}
	if _, err := io.WriteString(w, markdown(table)); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}

// memory returns the peak of the subject's memory, or how much an idle connection needs.
func (s series) memory() string {
	if s.task.load == nil {
		added := median(s, func(p pair) int64 { return p.subject.idle })
		return fmt.Sprintf("%.1f KiB each", float64(added)/idleConnections/(1<<10))
	}
	peak := mebibytes(median(s, func(p pair) int64 { return p.subject.peak }))
	if s.task.flat > 0 {
		peak += ", rose by " + mebibytes(median(s, grown))
	}
	return peak
}

// rate returns how many requests the subject answers in a second of a core.
func rate(p pair) float64 { return p.subject.perSecond() }

// grown returns by how much the memory of the subject rose.
func grown(p pair) int64 { return p.subject.grown }

// short rounds a time to three digits.
func short(d time.Duration) string {
	for unit := time.Nanosecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// markdown returns a table whose first row is the heading, with columns of equal
// width. It is empty without further rows.
func markdown(rows [][]string) string {
	if len(rows) < 2 {
		return ""
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	out.WriteString("\n")
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&out, "| %-*s ", widths[i], cell)
		}
		out.WriteString("|\n")
		if n > 0 {
			continue
		}
		for _, width := range widths {
			out.WriteString("|" + strings.Repeat("-", width+2))
		}
		out.WriteString("|\n")
	}
	return out.String()
}
