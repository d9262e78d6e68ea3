package policy

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// possibleMessages returns a message of each kind that the lists of MCP in rules can tell apart.
func possibleMessages(rules []*rule) ([]*Message, error) {
	var errs []error
	of := func(key string, literals ...string) []string {
		all := literals
		for _, r := range rules {
			if r.key == messageKey+key {
				for _, entry := range r.values {
					all = append(all, strings.TrimPrefix(entry, "!"))
				}
			}
		}
		slices.Sort(all)
		texts, err := tellApart(slices.Compact(all))
		errs = append(errs, err)
		return texts
	}
	methods := of("methods", ToolsCall, PromptsGet, ResourcesRead, ResourcesSubscribe, ResourcesUnsubscribe,
		SubscriptionsListen)
	resources := of("resources")
	names := map[string][]string{
		ToolsCall: of("tools"), PromptsGet: of("prompts"), ResourcesRead: resources, ResourcesSubscribe: resources,
		ResourcesUnsubscribe: resources, SubscriptionsListen: resources,
	}
	if errors.Join(errs...) != nil {
		return nil, errors.New("its policy tells too many names of mcp apart")
	}
	var all []*Message
	for _, method := range methods {
		for _, name := range names[method] {
			all = append(all, &Message{Method: method, Name: name, Watched: []string{name}})
		}
		if names[method] == nil && method != "" {
			all = append(all, &Message{Method: method})
		}
	}
	return all, nil
}

const (
	maxStates    = 1 << 13 // bounds the work of tellApart
	endOfPattern = -1
)

// tellApart returns a text for each set of patterns that match a text and no others do. It reads all texts,
// rune by rune, until they lead to no new state. A state has a byte for each rune of the patterns, and for
// their ends: '1' if the text before it can be read.
func tellApart(patterns []string) ([]string, error) {
	var all []rune
	start, alphabet := "", []rune{'\U0010FFFD'} // in the place of all others
	for _, pattern := range patterns {
		all = append(append(all, []rune(pattern)...), endOfPattern)
		start += "1" + strings.Repeat("0", utf8.RuneCountInString(pattern))
		alphabet = append(alphabet, []rune(pattern)...)
	}
	slices.Sort(alphabet)
	alphabet = slices.Compact(alphabet)
	states, texts, seen := []string{start}, []string{""}, map[string]bool{start: true}
	for at := 0; at < len(states); at++ {
		for _, c := range alphabet {
			next := readRune(all, states[at], c)
			if seen[next] {
				continue
			}
			if len(states) == maxStates {
				return nil, errors.New("too many states")
			}
			seen[next] = true
			states, texts = append(states, next), append(texts, texts[at]+string(c))
		}
	}
	return distinct(patterns, texts, matchPattern), nil
}

// readRune returns the state of patterns after one more rune.
func readRune(patterns []rune, state string, c rune) string {
	from, to := []byte(state), []byte(strings.Repeat("0", len(state)))
	for i, expected := range patterns {
		switch {
		case from[i] != '1':
		case expected == '*': // for nothing, or for this rune and more
			from[i+1], to[i] = '1', '1'
		case expected == c:
			to[i+1] = '1'
		}
	}
	return string(to)
}
