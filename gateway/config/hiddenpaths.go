package config

import (
	"fmt"
	"slices"
	"strings"

	"authgate/policy"
)

// HiddenPaths returns the paths of applications that the gateway answers itself, because its own
// endpoints have no folder of their own. There are none if endpoints.prefix is not "/".
func (c *Config) HiddenPaths() []string {
	if c.Endpoints.Prefix != "/" {
		return nil
	}
	paths := []string{"/" + EndpointVerify}
	for _, name := range c.OwnEndpoints() {
		paths = append(paths, "/"+name)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// warnOfHidden warns about each host whose application would have paths that the gateway hides.
func (k *checker) warnOfHidden() {
	c, r := k.cfg, k.report
	hidden := c.HiddenPaths()
	if hidden == nil {
		return
	}
	warned := map[string]bool{}
	for i, route := range c.Routes {
		host := policy.PatternHost(route.Match)
		if literalPath(route.Match) != "/" || route.Upstream == "" || warned[host] {
			continue
		}
		warned[host] = true
		r.Warn(fmt.Sprintf("routes[%d].match", i), "the application never gets these paths, which the gateway answers "+
			"itself: %s; set endpoints.prefix to /.authgate/, which leaves it all others", shownPaths(hidden))
	}
}

// shownPaths lists paths. Of those in one folder it shows the folder.
func shownPaths(paths []string) string {
	var shown []string
	folders := map[string]int{}
	first := func(path string) string {
		folder, _, _ := strings.Cut(path[1:], "/")
		return "/" + folder
	}
	for _, path := range paths {
		folders[first(path)]++
	}
	for _, path := range paths {
		if folder := first(path); folders[folder] > 1 {
			path = folder + " and below"
		}
		shown = append(shown, path)
	}
	return strings.Join(slices.Compact(shown), ", ")
}
