package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the known word that word most likely misspells or begins.
// The number of edits that it allows grows with the length. Case and - for _
// do not count.
func Nearest(word string, known []string) (string, bool) {
	best, _, found := nearest(word, known)
	return best, found
}

// nearest is Nearest with the number of edits.
func nearest(word string, known []string) (best string, edits int, found bool) {
	folded := foldWord(word)
	edits = 1 + len(folded)/4
	if len(folded) < 3 {
		edits = 0
	}
	for _, candidate := range known {
		if max(len(candidate), len(folded))-min(len(candidate), len(folded)) > edits {
			continue
		}
		if n := distance(folded, foldWord(candidate)); n < edits || n == edits && !found {
			best, edits, found = candidate, n, true
		}
	}
	for _, candidate := range known {
		if !found && strings.HasPrefix(foldWord(candidate), folded+"_") {
			return candidate, 0, true
		}
	}
	return best, edits, found
}

// meant is Nearest for a name, which may also leave out a part of the known one, or have one more: token
// for api_token, cert for certificate, redis_password for password. Such a known one is only the answer
// if no other is as near.
func meant(word string, known []string) (string, bool) {
	near, _, found := nearest(word, known)
	if isTypo(word, known) {
		return near, true
	}
	const enough = 0.5
	best, alone, share := "", false, 0.0
	for _, candidate := range known {
		switch n := commonShare(foldWord(word), foldWord(candidate)); {
		case n > share:
			best, alone, share = candidate, true, n
		case n == share:
			alone = false
		}
	}
	if alone && share >= enough {
		return best, true
	}
	return near, found
}

// isTypo reports whether a name is a known one but for one edit, so that nothing else is meant.
func isTypo(word string, known []string) bool {
	_, edits, found := nearest(word, known)
	return found && edits <= 1
}

// commonShare returns how many of the parts of two names, which _ separates, are in both. A part is
// also in the other name as the beginning of one.
func commonShare(a, b string) float64 {
	x, y := strings.Split(a, "_"), strings.Split(b, "_")
	common := 0
	for _, part := range x {
		if len(part) >= 3 && slices.ContainsFunc(y, func(other string) bool { return strings.HasPrefix(other, part) }) {
			common++
		}
	}
	return float64(common) / float64(len(x)+len(y)-common)
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

// Hint returns the end of a message about an unknown word: the known word that is probably meant, or
// else all known words, or those that are the nearest if they are many. plural names them.
func Hint(word, plural string, known []string) string {
	if best, ok := meant(word, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return fmt.Sprintf("there are no %s", plural)
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	const most, few = 40, 10
	if len(known) <= most {
		return fmt.Sprintf("the %s are %s", plural, strings.Join(known, ", "))
	}
	edits := make(map[string]int, len(known))
	for _, one := range known {
		edits[one] = distance(foldWord(word), foldWord(one))
	}
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(edits[a], edits[b]) })
	return fmt.Sprintf("the nearest %s are %s", plural, strings.Join(known[:few], ", "))
}
