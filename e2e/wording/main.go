// Command wording counts places that are hard to read: comment sentences with the word "what",
// sentences above 30 words, lines above 120 columns, and functions named by a verb without its object.
// It fails if the tree has more of a kind than limits.txt allows, and lists the places in the packages
// that have more than their row says.
//
//	go run -C e2e ./wording -dir ..                      # as make lint does
//	go run -C e2e ./wording -dir .. -list gateway/wire   # all places below a folder
//	go run -C e2e ./wording -dir .. -lower               # write the counts into limits.txt; none may rise
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	dir := flag.String("dir", ".", "the folder of the repository")
	list := flag.String("list", "", "list the places below this folder, relative to the repository")
	lower := flag.Bool("lower", false, "write the counts into limits.txt")
	flag.Parse()
	if err := run(os.Stdout, *dir, *list, *lower); err != nil {
		fmt.Fprintln(os.Stderr, "wording:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir, list string, lower bool) error {
	places, err := readTree(dir)
	if err != nil {
		return err
	}
	if list != "" {
		for _, p := range places {
			if strings.HasPrefix(p.file, list+"/") {
				fmt.Fprintln(out, p)
			}
		}
		return nil
	}
	file := filepath.Join(dir, "e2e", "wording", "limits.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	limits, err := parseLimits(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := compare(out, places, limits); err != nil {
		return err
	}
	if lower {
		return os.WriteFile(file, []byte(formatLimits(countByPackage(places))), 0o644)
	}
	return nil
}

// counts has a number for each kind.
type counts [kinds]int

// compare prints the places of each package above its limit, for the kinds of which the tree has more
// than all limits together. Code may move from one package to another.
func compare(out io.Writer, places []place, limits map[string]counts) error {
	found := countByPackage(places)
	total, allowed := sum(found), sum(limits)
	var above []string
	for k := range kinds {
		if total[k] <= allowed[k] {
			continue
		}
		above = append(above, fmt.Sprintf("%d %s, the limit is %d", total[k], k, allowed[k]))
		for _, pkg := range slices.Sorted(maps.Keys(found)) {
			if found[pkg][k] <= limits[pkg][k] {
				continue
			}
			fmt.Fprintf(out, "%s: %d %s, the limit is %d:\n", pkg, found[pkg][k], k, limits[pkg][k])
			for _, p := range places {
				if p.kind == k && p.pkg() == pkg {
					fmt.Fprintf(out, "\t%s\n", p)
				}
			}
		}
	}
	if above != nil {
		return fmt.Errorf("the product has %s", strings.Join(above, "; "))
	}
	return nil
}

func countByPackage(places []place) map[string]counts {
	found := map[string]counts{}
	for _, p := range places {
		c := found[p.pkg()]
		c[p.kind]++
		found[p.pkg()] = c
	}
	return found
}

func sum(rows map[string]counts) (total counts) {
	for _, c := range rows {
		for k, n := range c {
			total[k] += n
		}
	}
	return total
}

const head = `# The most that each package may have of each kind: sentences with "what", sentences above 30 words,
# lines above 120 columns, functions named by a verb alone. go run -C e2e ./wording -dir .. -lower
# writes it. The sums never rise.
`

func formatLimits(rows map[string]counts) string {
	var b strings.Builder
	b.WriteString(head)
	for _, pkg := range slices.Sorted(maps.Keys(rows)) {
		c := rows[pkg]
		fmt.Fprintf(&b, "%s %d %d %d %d\n", pkg, c[what], c[long], c[wide], c[bare])
	}
	return b.String()
}

func parseLimits(text string) (map[string]counts, error) {
	rows := map[string]counts{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var pkg string
		var c counts
		if _, err := fmt.Sscanf(line, "%s %d %d %d %d\n", &pkg, &c[what], &c[long], &c[wide], &c[bare]); err != nil {
			return nil, fmt.Errorf("%q is no row: %w", line, err)
		}
		if _, twice := rows[pkg]; twice {
			return nil, fmt.Errorf("%s has two rows", pkg)
		}
		rows[pkg] = c
	}
	return rows, nil
}
