package policy

import (
	"errors"
	"slices"
	"strings"
)

// Message is the part of a message for an MCP server that policies look at. The zero Message is a
// response, which no list of MCP refuses.
type Message struct {
	Method string // empty: a response
	// Name is that of the tool or prompt, or the URI of the resource. It is empty for other methods.
	Name string
	// Watched are the URIs of the resources to which SubscriptionsListen subscribes.
	Watched []string
}

// Methods of messages whose params name a tool, a prompt or resources.
const (
	ToolsCall            = "tools/call"
	PromptsGet           = "prompts/get"
	ResourcesRead        = "resources/read"
	ResourcesSubscribe   = "resources/subscribe"
	ResourcesUnsubscribe = "resources/unsubscribe"
	SubscriptionsListen  = "subscriptions/listen"
)

// MCP is the key of a policy about messages for an MCP server, with lists of patterns. All lists that are
// given must hold.
type MCP struct {
	Methods   []string `yaml:"methods"`   // the method matches
	Tools     []string `yaml:"tools"`     // no other tool is called
	Prompts   []string `yaml:"prompts"`   // no other prompt is asked for
	Resources []string `yaml:"resources"` // no other resource is read or watched
}

// messageKey begins the keys of the lists.
const messageKey = "mcp."

// leaves returns the lists as leaves of a Spec.
func (m *MCP) leaves() []leaf {
	if m == nil {
		return nil
	}
	list := func(key string, values []string, need string, holds func(*Message, func(string) bool) bool) leaf {
		rule := func(values []string) func(*Identity, *Request) bool {
			match := func(name string) bool { return MatchesPatterns(values, name) }
			return func(_ *Identity, req *Request) bool {
				// A POST whose message is not known meets no list.
				m := req.Message
				return req.Method != "POST" || m != nil && (m.Method == "" || holds(m, match))
			}
		}
		return leaf{key: messageKey + key, values: values, need: need, check: checkPattern, rule: rule, request: true}
	}
	return []leaf{
		list("methods", m.Methods, "needs a method that matches", func(m *Message, match func(string) bool) bool {
			return match(m.Method)
		}),
		list("tools", m.Tools, "needs a tool that matches", func(m *Message, match func(string) bool) bool {
			return m.Method != ToolsCall || match(m.Name)
		}),
		list("prompts", m.Prompts, "needs a prompt that matches", func(m *Message, match func(string) bool) bool {
			return m.Method != PromptsGet || match(m.Name)
		}),
		list("resources", m.Resources, "needs a resource that matches", func(m *Message, match func(string) bool) bool {
			switch m.Method {
			case ResourcesRead, ResourcesSubscribe, ResourcesUnsubscribe:
				return match(m.Name)
			case SubscriptionsListen:
				return !slices.ContainsFunc(m.Watched, func(uri string) bool { return !match(uri) })
			}
			return true
		}),
	}
}

// isEmpty reports whether the key is given without any list.
func (m *MCP) isEmpty() bool {
	return m != nil && m.Methods == nil && m.Tools == nil && m.Prompts == nil && m.Resources == nil
}

// aboutMessage reports whether a rule is a list of MCP.
func (r *rule) aboutMessage() bool { return strings.HasPrefix(r.key, messageKey) }

// RefusesMessage reports whether the route forbids a request for its message alone.
func (r *Route) RefusesMessage(id *Identity, req *Request) bool {
	if req.Message == nil {
		return false
	}
	other := *req
	other.Message = &Message{}
	return r.Decide(id, req).Outcome == Forbid && r.Decide(id, &other).Outcome != Forbid
}

// MatchesPatterns reports whether a list of MCP matches a name: one of its patterns does, and none after "!".
func MatchesPatterns(entries []string, name string) (matches bool) {
	for _, entry := range entries {
		pattern, excludes := strings.CutPrefix(entry, "!")
		if matchPattern(pattern, name) {
			if excludes {
				return false
			}
			matches = true
		}
	}
	return matches
}

// matchPattern reports whether a pattern matches a whole text. A * matches any number of any characters.
func matchPattern(pattern, text string) bool {
	part, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, found := strings.CutPrefix(text, part)
	for found {
		if part, rest, wild = strings.Cut(rest, "*"); !wild {
			return strings.HasSuffix(text, part)
		}
		_, text, found = strings.Cut(text, part) // the first one leaves the most to the other parts
	}
	return false
}

func checkPattern(entry string) error {
	switch entry {
	case "":
		return errEmpty
	case "!":
		return errors.New("excludes nothing; write a pattern after it, like !delete_*")
	}
	return nil
}

const (
	emptyMCP     = "no list is given; give at least one of methods, tools, prompts, resources"
	mcpUnderNone = "the policy has mcp, which must not be under none; exclude names by patterns after !, like mcp: " +
		`{tools: ["*", "!delete_*"]}`
)

// looksAtMessages reports whether policies have the key mcp, at any depth, now or once every Spec.Next is in place.
func looksAtMessages(specs map[string]*Spec, refs []Ref) (looks bool) {
	reach(specs, refs, map[string]bool{}, func(_ string, s *Spec) { looks = looks || s.MCP != nil })
	return looks
}

// LooksAtMessages reports whether policies have the key mcp, at any depth, now or once every Spec.Next is in place.
func (s *Set) LooksAtMessages(refs []Ref) bool { return looksAtMessages(s.specs, refs) }
