package main

import (
	"fmt"
	"strings"
)

// result is the text of docs/interop.md about a row.
type result struct{ version, outcome, date string }

const introduction = `# What the gateway was run against

` + "`make interop`" + ` runs the gateway against programs that others wrote, and writes this page. ` +
	`Each version is the one that the program or its
package reports, and each date the day of the run. What was not tried says why; it is never listed as passed.
[e2e/interop](../e2e/interop) names the tests behind each row.
`

// render returns the document.
func render(results map[string]result) string {
	var out strings.Builder
	out.WriteString(introduction)
	for _, t := range tables() {
		fmt.Fprintf(&out, "\n## %s\n\n| Counterpart | Version | What was tried | Result | Date |\n|---|---|---|---|---|\n",
			t.heading)
		for _, r := range t.rows {
			got := results[r.name]
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n",
				r.name, cell(got.version), cell(r.what()), cell(got.outcome), cell(got.date))
		}
	}
	return out.String()
}

// what returns the tries of a row.
func (r row) what() string {
	var all []string
	for _, t := range r.tries {
		all = append(all, t.what)
	}
	return strings.Join(all, "; ")
}

// cell is a text in a table; an empty one is a dash.
func cell(text string) string {
	if text == "" {
		return "–"
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", "\\|")
}

// parse returns the results in a document that render has written.
func parse(text string) map[string]result {
	results := map[string]result{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 5 || !strings.HasPrefix(cells[0], "| ") || cells[0] == "| Counterpart" {
			continue
		}
		empty := func(text string) string { return strings.TrimPrefix(text, "–") }
		results[strings.TrimPrefix(cells[0], "| ")] = result{
			version: empty(cells[1]), outcome: empty(cells[3]), date: empty(strings.TrimSuffix(cells[4], " |")),
		}
	}
	return results
}
