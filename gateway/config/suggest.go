package config

import (
	"fmt"
	"slices"
	"strings"
)

// nearest is the one of known that word is most likely a misspelling of, or
// the beginning of. The allowed number of edits grows with the length; case
// and - for _ are free.
func nearest(word string, known []string) (string, bool) {
	folded := foldWord(word)
	best, bestEdits := "", 1+len(folded)/4
	if len(folded) < 3 {
		bestEdits = 0
	}
	found := false
	for _, candidate := range known {
		if max(len(candidate), len(folded))-min(len(candidate), len(folded)) > bestEdits {
			continue
		}
		if edits := distance(folded, foldWord(candidate)); edits < bestEdits || edits == bestEdits && !found {
			best, bestEdits, found = candidate, edits, true
		}
	}
	for _, candidate := range known {
		if !found && strings.HasPrefix(foldWord(candidate), folded+"_") {
			return candidate, true
		}
	}
	return best, found
}

// foldWord removes the differences that do not count.
func foldWord(word string) string {
	return strings.ReplaceAll(strings.ToLower(word), "-", "_")
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that lead from a to b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range y {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}

// hint ends a message about an unknown word: the nearest known one, or all of
// them when none is near.
func hint(word, plural string, known []string) string {
	if best, ok := nearest(word, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return fmt.Sprintf("there are no %s", plural)
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	const most = 12
	if len(known) > most {
		return fmt.Sprintf("the %s are %s and %d more", plural, strings.Join(known[:most], ", "), len(known)-most)
	}
	return fmt.Sprintf("the %s are %s", plural, strings.Join(known, ", "))
}
