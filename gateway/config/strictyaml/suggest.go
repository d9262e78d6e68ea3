package strictyaml

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the known word that word most likely misspells or begins.
// The number of edits that it allows grows with the length. Case and - for _
// do not count.
func Nearest(word string, known []string) (string, bool) {
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

// foldWord removes differences that Nearest ignores.
func foldWord(word string) string {
	return strings.ReplaceAll(strings.ToLower(word), "-", "_")
}

// distance returns the number of insertions, deletions, replacements and swaps
// of neighbours between a and b (optimal string alignment).
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

// Hint returns the end of a message about an unknown word: the nearest known
// word, or all known words if none is near. plural names them.
func Hint(word, plural string, known []string) string {
	if best, ok := Nearest(word, known); ok {
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
