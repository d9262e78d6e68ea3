package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var (
	released   = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.]+))?(?:-(\d+)-(g[0-9a-f]+))?$`)
	unreleased = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// fileVersion returns the version of a package, as Debian and RPM sort it, for what
// git describe prints. A pre-release is before its release, a commit after the tag
// that it follows, and a commit without any tag is before all releases.
func fileVersion(described string, committed time.Time) (string, error) {
	clean, dirty := strings.CutSuffix(described, "-dirty")
	var number string
	var since []string
	if found := released.FindStringSubmatch(clean); found != nil {
		number = found[1]
		if found[2] != "" {
			number += "~" + found[2]
		}
		if found[3] != "" {
			since = []string{found[3], found[4]}
		}
	} else if unreleased.MatchString(clean) {
		number = "0.0~git" + committed.Format("20060102") + "." + clean
	} else {
		return "", fmt.Errorf("the version %q is neither a tag such as v1.2.3 nor a commit; work in a git checkout, or set VERSION", described)
	}
	if dirty {
		since = append(since, "dirty")
	}
	if len(since) > 0 {
		number += "+" + strings.Join(since, ".")
	}
	return number, nil
}
