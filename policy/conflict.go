package policy

import (
	"fmt"
	"strings"
)

// relation says how the requests that one pattern matches relate to those of
// another.
type relation byte

// All values but disjoint are combinations of the bits wider and narrower.
const (
	equal    relation = 0
	wider    relation = 1 << 0 // the first matches requests that the second does not
	narrower relation = 1 << 1 // the second matches requests that the first does not
	overlaps          = wider | narrower
	disjoint relation = 1 << 2 // no request matches both
)

// and returns the relation of two patterns whose first parts have the relation r, and
// whose second parts have the relation s.
func (r relation) and(s relation) relation {
	if r == disjoint || s == disjoint {
		return disjoint
	}
	return r | s
}

// conflict reports whether some requests match both patterns, and neither
// pattern is more specific.
func (r relation) conflict() bool { return r == equal || r == overlaps }

// compareMethods compares the methods of two patterns. The empty method is every
// method, and GET includes HEAD.
func compareMethods(a, b string) relation {
	switch {
	case a == b:
		return equal
	case a == "" || a == "GET" && b == "HEAD":
		return wider
	case b == "" || a == "HEAD" && b == "GET":
		return narrower
	}
	return disjoint
}

// compareKinds compares two segments. If both are literals, they must be equal.
func compareKinds(a, b segmentKind) relation {
	switch {
	case a == b:
		return equal
	case a == rest:
		return wider
	case b == rest:
		return narrower
	case a == end || b == end: // a segment is not empty
		return disjoint
	case a == wild:
		return wider
	}
	return narrower
}

// form decides how two patterns relate, apart from their hosts and literals:
// the method, and the kinds of the segments.
type form struct {
	method string
	kinds  string // a segmentKind for each segment
}

func newForm(method string, segments []segment) form {
	kinds := make([]byte, 0, 16) // usually on the stack
	for _, s := range segments {
		kinds = append(kinds, byte(s.kind))
	}
	return form{method, string(kinds)}
}

// comparePaths returns how the paths of patterns of form f relate to those of
// patterns of form g that have the same literal wherever both have one.
func (f form) comparePaths(g form) relation {
	r := equal
	for i := range min(len(f.kinds), len(g.kinds)) {
		r = r.and(compareKinds(segmentKind(f.kinds[i]), segmentKind(g.kinds[i])))
	}
	switch {
	case len(f.kinds) < len(g.kinds) && !strings.HasSuffix(f.kinds, string(rest)),
		len(g.kinds) < len(f.kinds) && !strings.HasSuffix(g.kinds, string(rest)):
		return disjoint
	}
	return r
}

// compare is comparePaths for the methods too.
func (f form) compare(g form) relation {
	return compareMethods(f.method, g.method).and(f.comparePaths(g))
}

// commonLiterals returns the segments that are literals in both forms, as a
// string of their indexes.
func (f form) commonLiterals(g form) string {
	var common []byte
	for i := range min(len(f.kinds), len(g.kinds)) {
		if f.kinds[i] == byte(literal) && g.kinds[i] == byte(literal) {
			common = append(common, byte(i), byte(i>>8))
		}
	}
	return string(common)
}

// conflicts finds the patterns that conflict with a pattern. Whether two do is a
// matter of their forms, if they have the same host and agree in the literals
// that are at the same places. A table has few forms, so conflicts looks only at
// pairs of forms, and finds the patterns that agree by a key: it never compares
// all patterns with each other.
type conflicts struct {
	forms map[form]*group
	key   []byte // the last one made
}

// group holds the patterns of one form.
type group struct {
	indexes map[string]*index // by commonLiterals
	rivals  []*index          // of groups with patterns that may conflict with one of this group
}

// index finds the first pattern of a group that has certain literals.
type index struct {
	literals string         // a result of commonLiterals
	first    map[string]int // by key
}

// newConflicts returns a conflicts without patterns. patterns are all that will
// be added or looked up; nil ones do not count.
func newConflicts(patterns []*pattern) *conflicts {
	c := &conflicts{forms: map[form]*group{}}
	var forms []form // in a fixed order
	for _, p := range patterns {
		if p == nil {
			continue
		}
		if c.forms[p.form] == nil {
			c.forms[p.form] = &group{indexes: map[string]*index{}}
			forms = append(forms, p.form)
		}
	}
	for _, f := range forms {
		for _, g := range forms {
			if f.compare(g).conflict() {
				c.forms[f].rivals = append(c.forms[f].rivals, c.forms[g].index(f.commonLiterals(g)))
			}
		}
	}
	return c
}

// index returns the index of the group by these literals.
func (g *group) index(literals string) *index {
	known := g.indexes[literals]
	if known == nil {
		known = &index{literals: literals, first: map[string]int{}}
		g.indexes[literals] = known
	}
	return known
}

// add adds the pattern p of route i.
func (c *conflicts) add(i int, p *pattern) {
	for _, index := range c.forms[p.form].indexes {
		c.makeKey(p, index.literals)
		if _, taken := index.first[string(c.key)]; !taken {
			index.first[string(c.key)] = i
		}
	}
}

// first returns the first route that has been added and whose pattern conflicts
// with p.
func (c *conflicts) first(p *pattern) (route int, found bool) {
	for _, index := range c.forms[p.form].rivals {
		c.makeKey(p, index.literals)
		if i, ok := index.first[string(c.key)]; ok && (!found || i < route) {
			route, found = i, true
		}
	}
	return route, found
}

// makeKey sets key to the host of p and its literals at the given places. They
// contain no control characters.
func (c *conflicts) makeKey(p *pattern, literals string) {
	c.key = append(c.key[:0], p.host...)
	for i := 0; i < len(literals); i += 2 {
		c.key = append(c.key, 0)
		c.key = append(c.key, p.segments[int(literals[i])|int(literals[i+1])<<8].text...)
	}
}

// describeConflict says why two patterns conflict.
func describeConflict(p, q *pattern) string {
	f, g := p.form, q.form
	switch paths := f.comparePaths(g); {
	case f.compare(g) == equal:
		return fmt.Sprintf("%s matches the same requests as %s", p.text, q.text)
	case paths == overlaps:
		return fmt.Sprintf("%[1]s and %[2]s both match some paths, like %[3]q. "+
			"But neither is more specific than the other. "+
			"%[1]s matches %[4]q, but %[2]s doesn't. %[2]s matches %[5]q, but %[1]s doesn't.",
			p.text, q.text, commonPath(p, q), differentPath(p, q), differentPath(q, p))
	case paths == narrower:
		return fmt.Sprintf("%s matches more methods than %s, but has a more specific path pattern", p.text, q.text)
	}
	return fmt.Sprintf("%s matches fewer methods than %s, but has a more general path pattern", p.text, q.text)
}

// commonPath returns a path that both patterns match. There must be one.
func commonPath(p, q *pattern) string {
	var b strings.Builder
	for i := range max(len(p.segments), len(q.segments)) {
		switch {
		case i >= len(p.segments) || i < len(q.segments) && (p.segments[i].kind == wild || p.segments[i].kind == rest):
			q.segments[i].write(&b)
		default:
			p.segments[i].write(&b)
		}
	}
	return b.String()
}

// differentPath returns a path that p matches and q does not. The paths of the
// patterns must overlap.
func differentPath(p, q *pattern) string {
	var b strings.Builder
	for i, s := range p.segments {
		if i >= len(q.segments) {
			s.write(&b)
			continue
		}
		switch other := q.segments[i]; {
		case s.kind == rest && other.kind == end: // any name is different
			b.WriteString("/" + s.text)
			if s.text == "" {
				b.WriteByte('x')
			}
			return b.String()
		case s.kind == rest: // the slash alone is different, or an earlier segment is
			b.WriteByte('/')
			return b.String()
		case s.kind == wild && other == segment{literal, s.text}:
			b.WriteString("/" + s.text + "x")
		default:
			s.write(&b)
		}
	}
	return b.String()
}

// write writes a path that the segment matches.
func (s segment) write(b *strings.Builder) {
	b.WriteByte('/')
	if s.kind != rest {
		b.WriteString(s.text)
	}
}
