package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"authgate/gateway/explain"
	"authgate/policy"
)

// explanation is an Explanation as JSON.
type explanation struct {
	Outcome    string            `json:"outcome"`
	Status     int               `json:"status"`
	Route      string            `json:"route"`
	Upstream   string            `json:"upstream"`
	Reason     string            `json:"reason"`
	Conditions []condition       `json:"conditions"`
	Headers    map[string]string `json:"headers"`
	StepUp     *stepUp           `json:"step_up,omitempty"`
	Note       string            `json:"note,omitempty"`
}

// stepUp is the demand on a sign-in.
type stepUp struct {
	Factors int   `json:"factors,omitempty"`
	MaxAge  int64 `json:"max_age,omitempty"` // in seconds
}

func newStepUp(d policy.Demand) *stepUp {
	if d == (policy.Demand{}) {
		return nil
	}
	return &stepUp{d.Factors, d.Seconds()}
}

type condition struct {
	Rule  string `json:"rule"`
	Needs string `json:"needs"`
	Depth int    `json:"depth"`
	Holds bool   `json:"holds"`
}

// printExplanation prints x as text, or as a JSON object.
func printExplanation(w io.Writer, x *explain.Result, asJSON bool) error {
	if asJSON {
		return printJSON(w, x)
	}
	printText(w, x)
	return nil
}

func printJSON(w io.Writer, x *explain.Result) error {
	shown := explanation{
		Outcome: x.Outcome, Status: x.Status, Route: x.Route, Upstream: x.Upstream, Reason: x.Reason,
		Conditions: []condition{}, Headers: map[string]string{}, StepUp: newStepUp(x.StepUp), Note: x.Note,
	}
	for _, c := range x.Conditions {
		shown.Conditions = append(shown.Conditions,
			condition{Rule: c.Rule, Needs: c.Needs, Depth: c.Depth, Holds: c.Holds})
	}
	for name := range x.Header {
		shown.Headers[name] = headerValue(x.Header, name)
	}
	return encodeJSON(w, shown)
}

// headerValue returns the value of a header, whatever the case of its name. Several
// lines are one list (RFC 9110, section 5.3).
func headerValue(h http.Header, name string) string {
	for sent, values := range h {
		if strings.EqualFold(sent, name) {
			return strings.Join(values, ", ")
		}
	}
	return ""
}

func printText(w io.Writer, x *explain.Result) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name+":", printable(fmt.Sprintf(format, args...)))
	}
	if x.Route != "" {
		line("route", "%s", x.Route)
	}
	if len(x.Mechanisms) > 0 {
		accepted := make([]string, len(x.Mechanisms))
		for i, m := range x.Mechanisms {
			accepted[i] = string(m)
		}
		line("mechanisms", "%s", strings.Join(accepted, ", "))
	}
	if x.Mechanism != "" {
		line("proved by", "%s", x.Mechanism)
	}
	if len(x.Conditions) > 0 {
		fmt.Fprintln(w, "conditions:")
	}
	for _, c := range x.Conditions {
		fmt.Fprintf(w, "  %-5t %s%s\n", c.Holds, strings.Repeat("  ", c.Depth), printable(c.Rule+": "+c.Needs))
	}
	line("decision", "%s (%d)", x.Outcome, x.Status)
	line("reason", "%s", x.Reason)
	if x.Note != "" {
		line("note", "%s", x.Note)
	}
	if x.StepUp != (policy.Demand{}) {
		line("step-up", "%s", x.StepUp)
	}
	if x.Path != "" {
		line("upstream", "%s, path %s", x.Upstream, x.Path)
	}
	if len(x.Header) > 0 {
		fmt.Fprintln(w, "headers:")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Header)) {
		fmt.Fprintf(w, "  %s: %s\n", name, printable(headerValue(x.Header, name)))
	}
}

// printable quotes a text on which a terminal could act, or that it would show in another
// order.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
