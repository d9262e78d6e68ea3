package policy

import (
	"errors"
	"slices"
	"strings"
)

// possibleMessages returns a message of each kind that the lists of MCP in rules can tell apart.
func possibleMessages(rules []*rule) ([]*Message, error) {
	of := func(key string, literals ...string) ([]string, error) {
		all := literals
		for _, r := range rules {
			if r.key == messageKey+key {
				p := newPatterns(r.values)
				all = slices.Concat(all, p.included, p.excluded)
			}
		}
		slices.Sort(all)
		return tellApart(slices.Compact(all))
	}
	methods, errMethods := of("methods", ToolsCall, PromptsGet, ResourcesRead, ResourcesSubscribe,
		ResourcesUnsubscribe, SubscriptionsListen)
	tools, errTools := of("tools")
	prompts, errPrompts := of("prompts")
	resources, errResources := of("resources")
	if err := errors.Join(errMethods, errTools, errPrompts, errResources); err != nil {
		return nil, errors.New("its policy tells too many names of mcp apart")
	}
	names := map[string][]string{
		ToolsCall: tools, PromptsGet: prompts, ResourcesRead: resources, ResourcesSubscribe: resources,
		ResourcesUnsubscribe: resources, SubscriptionsListen: resources,
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

// maxStates bounds the work of tellApart.
const maxStates = 1 << 13

// tellApart returns a text for each set of patterns that match a text and no others do. It reads all texts,
// rune by rune, until they lead to no new state of the patterns.
func tellApart(texts []string) ([]string, error) {
	readers, alphabet := make([]reader, len(texts)), []rune{'\U0010FFFD'} // in the place of all others
	for i, text := range texts {
		readers[i] = reader(text)
		for _, c := range readers[i] {
			if c != '*' && !slices.Contains(alphabet, c) {
				alphabet = append(alphabet, c)
			}
		}
	}
	type reached struct{ state, text string }
	first := ""
	for _, r := range readers {
		first += r.start()
	}
	queue, seen, found := []reached{{state: first}}, map[string]bool{first: true}, map[string]bool{}
	var kept []string
	for at := 0; at < len(queue); at++ {
		here := queue[at]
		outcome := ""
		end := 0
		for _, r := range readers {
			end += len(r) + 1
			outcome += here.state[end-1 : end]
		}
		if !found[outcome] {
			found[outcome] = true
			kept = append(kept, here.text)
		}
		for _, c := range alphabet {
			next := readRune(readers, here.state, c)
			if seen[next] {
				continue
			}
			if len(queue) == maxStates {
				return nil, errors.New("too many states")
			}
			seen[next] = true
			queue = append(queue, reached{next, here.text + string(c)})
		}
	}
	return kept, nil
}

// reader is a pattern that reads a text. Its state has a byte for each place in the pattern, and one for
// its end: '1' if the text can have led there.
type reader []rune

func (r reader) start() string {
	state := []byte(strings.Repeat("0", len(r)+1))
	state[0] = '1'
	return r.spread(state)
}

// spread goes over each * that matches nothing.
func (r reader) spread(state []byte) string {
	for i, c := range r {
		if c == '*' && state[i] == '1' {
			state[i+1] = '1'
		}
	}
	return string(state)
}

// readRune returns the state of readers after one more rune.
func readRune(readers []reader, state string, c rune) string {
	var after strings.Builder
	for _, r := range readers {
		next := []byte(strings.Repeat("0", len(r)+1))
		for i, expected := range r {
			switch {
			case state[i] != '1':
			case expected == '*':
				next[i] = '1'
			case expected == c:
				next[i+1] = '1'
			}
		}
		after.WriteString(r.spread(next))
		state = state[len(r)+1:]
	}
	return after.String()
}
