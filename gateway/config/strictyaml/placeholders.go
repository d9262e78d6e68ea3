package strictyaml

import (
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strings"
)

// standInHost returns what takes the place of a variable in a text. Two variables seldom have
// the same value, and some must not.
func standInHost(name string) string {
	label := strings.Trim(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "-")
	return label + ".placeholder.example"
}

// standInSecret returns what takes the place of the secret that a variable or a file has.
func standInSecret(name string) string {
	return "placeholder-0123456789abcdefghijklmnopqrstuvwxyz-" + name
}

// standIns are those for truth values and numbers.
var standIns = map[reflect.Kind]string{reflect.Bool: "false", reflect.Int: "1", reflect.Int64: "1", reflect.Float64: "1"}

// isURL matches the keys of URLs.
var isURL = regexp.MustCompile(`(url|uri)s?$`)

// standIn returns what takes the place of a variable that is the whole value at path. It fits
// most values of their kind.
func standIn(name, path string, t reflect.Type) string {
	host := standInHost(name)
	switch t {
	case durationType:
		return "1h"
	case secretType:
		return standInSecret(name)
	case reflect.TypeFor[*url.URL]():
		return "https://" + host
	case reflect.TypeFor[netip.Prefix]():
		return "192.0.2.0/24"
	}
	if number, ok := standIns[t.Kind()]; ok {
		return number
	}
	key := path[strings.LastIndexByte(path, '.')+1:]
	key, _, _ = strings.Cut(key, "[")
	switch {
	case strings.HasSuffix(key, "address"), strings.HasSuffix(key, "addresses"):
		return host + ":443"
	case key == "issuer", key == "origins", isURL.MatchString(key):
		return "https://" + host
	}
	return host
}

// unset returns what takes the place of a variable that is not set in the value s at path. It
// returns false if that is a mistake.
func (d *decoder) unset(s, path string, t reflect.Type) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		switch {
		case !d.Placeholders:
			return "", false
		case s == "${"+name+"}":
			d.stood[path] = true
			return standIn(name, path, t), true
		}
		d.stood[path] = true
		return standInHost(name), true
	}
}
