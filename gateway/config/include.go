package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// part is what a file of include holds.
type part struct {
	Upstreams map[string]forwarding.Upstream `yaml:"upstreams"`
	Policies  map[string]*policy.Spec        `yaml:"policies"`
	Routes    []Route                        `yaml:"routes"`
	Providers []issuers.Provider             `yaml:"providers"`
	OAuth     struct {
		Clients []OAuthClient `yaml:"clients"`
	} `yaml:"oauth"`
}

// partFile is a file of include as it was read.
type partFile struct {
	path   string
	source []byte
}

// includes finds and reads the files of include.
type includes struct {
	main  *section.Report
	path  string // of the main file
	parts []partFile
	files []File // these, and the patterns
}

// findParts reads the files that patterns match, each once, but neither the main file nor hidden
// ones. An error is reported at the pattern.
func (in *includes) findParts(patterns []string) {
	seen := map[string]bool{real(in.path): true}
	for i, pattern := range patterns {
		key := fmt.Sprintf("include[%d]", i)
		if pattern == "" {
			in.main.Fault(key, "must be the path of a file, or a pattern such as conf.d/*.yaml")
			continue
		}
		names, file, err := strictyaml.Glob(in.main.Resolve(pattern))
		if err != nil {
			in.main.Fault(key, "%q is not a pattern; a bracket needs its other half: conf.d/[a-m]*.yaml", pattern)
			continue
		}
		in.files = append(in.files, file)
		if len(names) == 0 && !strings.ContainsAny(pattern, `*?[\`) {
			in.main.Warn(key, "there is no file %s", in.main.Resolve(pattern))
		}
		for _, name := range names {
			if !isHidden(in.main.Resolve(pattern), name) && !seen[real(name)] {
				seen[real(name)] = true
				in.readPart(key, name)
			}
		}
	}
}

// isHidden reports whether a file that a pattern matches is hidden, or is in a hidden folder that
// the pattern does not name: as in a shell, wildcards do not match those.
func isHidden(pattern, name string) bool {
	asked := strings.Split(filepath.Clean(pattern), string(filepath.Separator))
	found := strings.Split(filepath.Clean(name), string(filepath.Separator))
	for i, element := range found {
		last := i == len(found)-1
		if strings.HasPrefix(element, ".") && (last || i >= len(asked) || asked[i] != element) {
			return true
		}
	}
	return false
}

func (in *includes) readPart(key, name string) {
	source, file, err := strictyaml.ReadFile(name, maxConfigSize)
	in.files = append(in.files, file)
	if err != nil {
		in.main.Missing(key, "%v", err)
		return
	}
	in.parts = append(in.parts, partFile{name, source})
}

// real returns the path of a file without symbolic links, as far as it is known.
func real(path string) string {
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		path = followed
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// add adds the parts to the configuration of the main file. It reports whether all could be
// read: else checks would report what follows from that.
func (c *Config) add(reader *strictyaml.Reader, main *section.Report, parts []partFile) (whole bool) {
	whole = !main.Unreadable("") && !main.Broken("include")
	for _, file := range parts {
		var p part
		doc := reader.ReadPart(file.path, file.source, maxConfigSize, &p)
		if doc.HasSecrets() {
			c.secretFiles = append(c.secretFiles, file.path)
		}
		addNamed(main, doc, "upstreams", &c.Upstreams, p.Upstreams)
		addNamed(main, doc, "policies", &c.Policies, p.Policies)
		addListed(main, doc, "routes", &c.Routes, p.Routes)
		addListed(main, doc, "providers", &c.Providers, p.Providers)
		addListed(main, doc, "oauth.clients", &c.OAuth.Clients, p.OAuth.Clients)
		whole = whole && !doc.Unreadable("")
	}
	return whole
}

// addNamed adds the elements of a mapping, whose names must be new.
func addNamed[T any](main *section.Report, doc *strictyaml.Document, key string, to *map[string]T, more map[string]T) {
	adoptBroken(main, doc, key)
	if *to == nil {
		*to = map[string]T{}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		path := strictyaml.Join(key, name)
		if _, twice := (*to)[name]; twice {
			doc.Fault(path, "%q is already defined at %s; choose another name, or remove one of the two", name,
				main.Place(path))
			continue
		}
		(*to)[name] = more[name]
		main.Adopt(path, doc, path)
	}
}

// addListed adds the elements of a list. The checks of the section find names that come twice.
func addListed[T any](main *section.Report, doc *strictyaml.Document, key string, to *[]T, more []T) {
	adoptBroken(main, doc, key)
	for i := range more {
		main.Adopt(fmt.Sprintf("%s[%d]", key, len(*to)+i), doc, fmt.Sprintf("%s[%d]", key, i))
	}
	*to = append(*to, more...)
}

// adoptBroken makes a section wrong that a part has and that could not be read.
func adoptBroken(main *section.Report, doc *strictyaml.Document, key string) {
	if doc.Unreadable(key) {
		main.Break(key)
	}
}

// Edited returns the configuration with another content of its main file or of one of its
// parts. Of all other files, it reads again only those that these name. The error is Diagnostics, or ErrNoPart.
func (c *Config) Edited(path string, content []byte) (*Config, error) {
	from, found := *c.source(), false
	if real(path) == real(c.path) {
		from.main, found = content, true
	}
	from.parts = slices.Clone(from.parts)
	for i := range from.parts {
		if !found && real(from.parts[i].path) == real(path) {
			from.parts[i].source, found = content, true
		}
	}
	if !found {
		return nil, ErrNoPart
	}
	cfg, _, err := c.environment.parse(c.path, &from)
	return cfg, err
}

// ErrNoPart: a file is neither the main file of a configuration nor one of its parts.
var ErrNoPart = errors.New("no pattern of include matches the file")
