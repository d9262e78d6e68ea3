package strictyaml

import (
	"regexp"
	"slices"
	"strings"
)

// Masked replaces a secret in diagnostics.
const Masked = "[masked]"

var (
	// keyShape matches a key at the start of a line, after a dash or in a flow
	// mapping, in quotes or not.
	keyShape = regexp.MustCompile(`(?:^|[\s{,\[])["']?([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*:(?:\s|$|["'])`)
	// jsonKey matches a key of a JSON object.
	jsonKey = regexp.MustCompile(`"([^"]*)"\s*:`)
	// passwordHash matches a stored hash under any key.
	passwordHash = regexp.MustCompile(`\$(?:argon2|2[a-z]\$|apr1\$|[156]\$)\S*|\{S?SHA\d*\}\S*`)
	// wholeHash matches a hash, and no example of one in a message.
	wholeHash = regexp.MustCompile(`\$(?:argon2|2[a-z]\$)\S{40,}`)
	// userinfo matches the credentials in a URL.
	userinfo = regexp.MustCompile(`://[^/\s@]*@`)
)

// secretKey reports whether the value of a key may be a secret. The values of
// x_file keys are paths.
func (o *Options) secretKey(key string) bool {
	folded := strings.ToLower(key)
	if strings.HasSuffix(folded, "_file") || slices.Contains(o.PublicKeys, folded) {
		return false
	}
	if strings.Contains(folded, "secret") || strings.Contains(folded, "passw") {
		return true
	}
	_, near := Nearest(folded, o.SecretKeys)
	return near
}

// maskYAML returns the function that shows line i of a YAML text with secrets
// masked. It uses only the text, because it must also work on text that
// cannot be parsed. It masks the rest of a line after a secret key, and lines
// that continue the value of a secret key above.
func (o *Options) maskYAML(lines []string) func(i int) string {
	above := continued{options: o, lines: lines, secret: map[string]bool{}}
	return func(i int) string {
		line := lines[i]
		if above.line(i) {
			return line[:indentation(line)] + Masked
		}
		for _, found := range keyShape.FindAllStringSubmatchIndex(line, -1) {
			if !o.secretKey(line[found[2]:found[3]]) {
				continue
			}
			colon := found[3] + strings.IndexByte(line[found[3]:], ':') + 1
			if value := strings.TrimLeft(line[colon:], " \t"); value != "" {
				line = line[:len(line)-len(value)] + Masked
			}
			break
		}
		return maskPatterns(line)
	}
}

// MaskJSON masks the rest of a line of JSON after a secret key.
func (o *Options) MaskJSON(line string) string {
	for _, found := range jsonKey.FindAllStringSubmatchIndex(line, -1) {
		if o.secretKey(line[found[2]:found[3]]) {
			return line[:found[1]] + " " + Masked
		}
	}
	return line
}

// continued finds which lines belong to the value of a secret key on a line above.
// The parent of a line with a key is the nearest line above whose key is further
// left. The parent of another line is the nearest line above with a key.
type continued struct {
	options *Options
	lines   []string
	hidden  []bool          // of the lines so far
	open    []openKey       // the keys around the next line
	secret  map[string]bool // keys that were looked up
}

// openKey is a key whose value may go on in the next line.
type openKey struct {
	column int
	secret bool
}

// line reports whether line i belongs to the value of a secret key above. It reads
// the text only as far as it was not read before.
func (c *continued) line(i int) bool {
	for len(c.hidden) <= i {
		c.hidden = append(c.hidden, c.next(c.lines[len(c.hidden)]))
	}
	return c.hidden[i]
}

// next reports whether the next line is hidden.
func (c *continued) next(line string) bool {
	content := strings.TrimLeft(line, " \t-")
	if content == "" || content[0] == '#' {
		return false
	}
	var keys [][]string
	if strings.Contains(line, ":") {
		keys = keyShape.FindAllStringSubmatch(line, -1)
	}
	column := len(line) - len(content)
	for keys != nil && len(c.open) > 0 && c.open[len(c.open)-1].column >= column {
		c.open = c.open[:len(c.open)-1]
	}
	hidden := len(c.open) > 0 && c.open[len(c.open)-1].secret
	if keys != nil {
		c.open = append(c.open, openKey{column, hidden || c.isSecret(keys[len(keys)-1][1])})
	}
	return hidden
}

// isSecret is secretKey, once for each key.
func (c *continued) isSecret(key string) bool {
	is, known := c.secret[key]
	if !known {
		is = c.options.secretKey(key)
		c.secret[key] = is
	}
	return is
}

// maskPatterns masks what looks like a secret.
func maskPatterns(line string) string {
	line = passwordHash.ReplaceAllString(line, Masked)
	return userinfo.ReplaceAllString(line, "://"+Masked+"@")
}

// indentation returns the number of leading spaces and tabs.
func indentation(line string) int {
	return len(line) - len(strings.TrimLeft(line, " \t"))
}
