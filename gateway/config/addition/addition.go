// Package addition adds an application to the text of a configuration. Every other byte of
// the text stays, comments too.
package addition

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/config/forwarding"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Application is what is added: an upstream, and the route that leads to it.
type Application struct {
	Name  string // of the upstream
	URL   string // of the upstream
	Match string // of the route
	Auth  []policy.Mechanism
	// Policy is the name of a policy that must hold. Without it, users need one of Roles; without
	// both, every user may pass.
	Policy string
	Roles  []string
	// Title puts the application on the start page, with Description and Icon.
	Title, Description, Icon string
}

// Errors of Into and Check.
var (
	// ErrNoPlace: a section is written in a way in which nothing can be added to it.
	ErrNoPlace = errors.New("upstreams or routes are written in a way in which only an editor can add to them, " +
		"such as an alias, or a whole file in braces")
	// ErrMore: the addition would be another one than it should be, or change something else too.
	ErrMore = errors.New("the addition would become or change something else, such as what an anchor shares; " +
		"only an editor can make it")
)

// Change is the text that Into adds to one section of a file.
type Change struct {
	Section string
	Line    int    // of the file as it is then, from 1
	Text    string // without empty lines before it
}

// Lines returns the addition as an editor would write it.
func (a Application) Lines() string {
	return "upstreams:\n" + a.upstream().block("  ", "  ") + "routes:\n" + a.route().block("  ", "  ")
}

// Into returns the text of a file with the application, and the changes. The caller must read
// the result, and Check it.
func (a Application) Into(source []byte) (text []byte, changes []Change, err error) {
	before := string(source)
	upstream, err := insert(before, "upstreams", a.upstream())
	if err != nil {
		return nil, nil, err
	}
	between := upstream.into(before)
	route, err := insert(between, "routes", a.route())
	if err != nil {
		return nil, nil, err
	}
	if route.at <= upstream.at {
		upstream.at += len(route.text)
	}
	after := route.into(between)
	return []byte(after), []Change{upstream.change("upstreams", after), route.change("routes", after)}, nil
}

// upstream returns what is added to upstreams.
func (a Application) upstream() item {
	return item{name: strictyaml.Key(a.Name), fields: []field{{"url", strictyaml.Quoted(a.URL)}}}
}

// route returns what is added to routes.
func (a Application) route() item {
	names := make([]string, len(a.Auth))
	for i, mechanism := range a.Auth {
		names[i] = string(mechanism)
	}
	fields := []field{
		{"match", strictyaml.Text(a.Match)}, {"upstream", strictyaml.Text(a.Name)}, {"auth", list(names)},
	}
	for _, one := range a.rule() {
		if one.Spec == nil {
			fields = append(fields, field{"policy", strictyaml.Text(one.Name)})
		} else {
			fields = append(fields, field{"policy", "{roles: " + list(one.Spec.Roles) + "}"})
		}
	}
	if a.Title != "" {
		app := "title: " + strictyaml.Text(a.Title)
		if a.Description != "" {
			app += ", description: " + strictyaml.Text(a.Description)
		}
		if a.Icon != "" {
			app += ", icon: " + strictyaml.Text(a.Icon)
		}
		fields = append(fields, field{"app", "{" + app + "}"})
	}
	return item{fields: fields}
}

// rule returns the policy of the route.
func (a Application) rule() []policy.Ref {
	switch {
	case a.Policy != "":
		return []policy.Ref{{Name: a.Policy}}
	case len(a.Roles) > 0:
		return []policy.Ref{{Spec: &policy.Spec{Roles: a.Roles}}}
	}
	return nil
}

// list returns texts as a list in brackets.
func list(texts []string) string {
	written := make([]string, len(texts))
	for i, text := range texts {
		written[i] = strictyaml.Text(text)
	}
	return "[" + strings.Join(written, ", ") + "]"
}

// Check reports whether a configuration differs from an earlier one by the application alone.
func (a Application) Check(old, new *config.Config) error {
	if len(new.Routes) != len(old.Routes)+1 || len(new.Upstreams) != len(old.Upstreams)+1 {
		return ErrMore
	}
	before := old.Routes
	for _, route := range new.Routes {
		switch {
		case len(before) > 0 && reflect.DeepEqual(route, before[0]):
			before = before[1:]
		case route.Match != a.Match || route.Upstream != a.Name || !slices.Equal(route.Auth, a.Auth) ||
			!reflect.DeepEqual(route.Policy, a.rule()):
			return ErrMore
		}
	}
	for name, upstream := range old.Upstreams {
		if !reflect.DeepEqual(upstream, new.Upstreams[name]) {
			return ErrMore
		}
	}
	if len(before) > 0 || !reflect.DeepEqual(old.Policies, new.Policies) {
		return ErrMore
	}
	return nil
}

// Taken returns an error if a configuration has the name of the application, or serves its
// place already.
func (a Application) Taken(cfg *config.Config) error {
	if upstream, ok := cfg.Upstreams[a.Name]; ok {
		return fmt.Errorf("there is an upstream %q already, at %s; choose another name", a.Name, addresses(upstream))
	}
	host, path := split(a.Match)
	taken := ""
	if host == "" {
		return nil // the configuration tells what is wrong with it
	}
	for _, route := range cfg.Routes {
		itsHost, itsPath := split(route.Match)
		switch {
		case itsPath != path:
		case itsHost == host:
			taken = route.Match
		case itsHost == "" && taken == "" && slices.Contains(cfg.Hosts(), host):
			taken = route.Match
		}
	}
	if taken == "" {
		return nil
	}
	return fmt.Errorf("the route %q serves %s%s already; give another host, or a path of this one, such as %s%s",
		taken, host, path, host, strings.TrimSuffix(path, "/")+"/"+a.Name+"/")
}

// addresses returns where the targets of an upstream are.
func addresses(u forwarding.Upstream) string {
	var all []string
	for _, target := range u.URLs {
		all = append(all, target.String())
	}
	return strings.Join(all, " and ")
}

// split returns the host of a pattern, in the form of policy.CanonicalHost, and its path.
func split(match string) (host, path string) {
	at := strings.IndexByte(match, '/')
	if at < 0 {
		return "", match
	}
	return policy.PatternHost(match), match[at:]
}
