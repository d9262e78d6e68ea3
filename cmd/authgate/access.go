package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/explain"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// accessFlags say which part of the table to print, and how.
type accessFlags struct {
	path, other, provider, at          string
	users, roles, routes               []string
	next, asJSON, opensOnly, placehold bool
}

func accessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access [flags]",
		Short: "Print who may open what",
		Long: "Print whether each local account may open each route. No gateway needs to run, and\n" +
			"nothing is written. --roles adds a made-up user with these roles and nothing else;\n" +
			"accounts are then those of --user alone. A user has a login by any mechanism that the\n" +
			"route accepts, with one factor at a time that is not known.\n\n" +
			"    allow     the policy lets the user in\n" +
			"    forbid    it does not, or the account is disabled or has ended\n" +
			"    step-up   it does after a sign-in that proves more\n" +
			"    sign-in   the route takes no credential that the account can have\n" +
			"    depends   on networks, methods, mcp or claims\n\n" +
			"--diff compares with another configuration, and prints what differs: opens (some\n" +
			"request gets further than before), closes (some does not get as far, and none gets\n" +
			"further) or changes. The exit status is 1 if anything is printed.",
		Example: "  authgate access\n" +
			"  authgate access --user bob --next\n" +
			"  authgate access --roles staff,editor --roles guest --route wiki\n" +
			"  authgate access --diff new.yaml --opens",
		Args: noArguments,
	}
	var f accessFlags
	path, placeholders := configOrInputFlag(cmd), placeholdersFlag(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.users, "user", nil, "only this local account; can be repeated")
	flags.StringArrayVar(&f.roles, "roles", nil, "a made-up user with these roles, as a,b; can be repeated")
	flags.StringArrayVar(&f.routes, "route", nil, "only the route of this name; can be repeated")
	flags.StringVar(&f.provider, "provider", "", "the provider or trusted issuer of the made-up users (default: local)")
	flags.BoolVar(&f.next, "next", false, "with every next of the policies in place")
	atFlag(cmd, &f.at)
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	flags.StringVar(&f.other, "diff", "", "print what differs in another configuration `FILE`")
	flags.BoolVar(&f.opensOnly, "opens", false, "with --diff, only where it opens")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.path, f.placehold = *path, *placeholders
		return f.run(cmd)
	}
	return cmd
}

// atFlag adds the flag with a time, for readAt.
func atFlag(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", "",
		"the time at which accounts and roles may have ended, in RFC 3339 (default: now)")
}

// readAt returns the clock of --at.
func readAt(at string) (func() time.Time, error) {
	if at == "" {
		return time.Now, nil
	}
	parsed, err := time.Parse(time.RFC3339, at)
	if err != nil {
		err = fmt.Errorf("--at %q is not a time in RFC 3339 with an offset, like 2026-12-04T18:00:00Z", at)
		return nil, &usageError{err}
	}
	return func() time.Time { return parsed }, nil
}

func (f *accessFlags) run(cmd *cobra.Command) (err error) {
	switch changed := cmd.Flags().Changed; {
	case f.opensOnly && !changed("diff"):
		return &usageError{errors.New("--opens needs --diff: it is about what another configuration opens")}
	case changed("provider") && len(f.roles) == 0:
		return &usageError{errors.New("--provider needs --roles: it is about made-up users")}
	}
	paths := []string{f.path}
	if cmd.Flags().Changed("diff") {
		paths = append(paths, f.other)
	}
	var accesses []*explain.Access
	for _, path := range paths {
		a, done, failed := f.load(cmd, path)
		if failed != nil {
			return failed
		}
		defer func() {
			if failed := done(); err == nil {
				err = failed
			}
		}()
		accesses = append(accesses, a)
	}
	rows, err := f.rows(accesses)
	if err != nil {
		return err
	}
	routes, err := f.columns(accesses)
	if err != nil {
		return err
	}
	if len(accesses) == 1 {
		err = f.printAccess(cmd.OutOrStdout(), accesses[0], rows, routes)
	} else {
		err = f.printDiff(cmd.OutOrStdout(), accesses, rows, routes)
	}
	if mistake, ok := errors.AsType[*explain.Mistake](err); ok {
		return &usageError{mistake}
	}
	return err
}

// load returns the access under the configuration at path, which is valid until done is called.
func (f *accessFlags) load(cmd *cobra.Command, path string) (a *explain.Access, done func() error, err error) {
	now, err := readAt(f.at)
	if err != nil {
		return nil, nil, err
	}
	cfg, _, err := loadConfig(cmd, path, config.Environment{Placeholders: f.placehold})
	if err != nil {
		return nil, nil, err
	}
	explainer, err := gateway.NewExplainerAt(cfg, now)
	if err != nil {
		return nil, nil, err
	}
	a = explainer.Access()
	if f.next {
		a.UseNext()
	}
	return a, explainer.Close, nil
}

// rows returns the users to print: those of the flags, or all accounts.
func (f *accessFlags) rows(all []*explain.Access) (rows []explain.Row, err error) {
	var known []string
	for _, a := range all {
		for i := range a.Known.Config.Accounts.Users {
			if name := a.Known.Config.Accounts.Users[i].Username; !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	names := f.users
	if names == nil && f.roles == nil {
		names = known
	}
	for _, name := range names {
		if name == "" || !slices.ContainsFunc(all, func(a *explain.Access) bool { return a.HasUser(name) }) {
			return nil, unknownName("--user", "local account", name, known)
		}
		rows = append(rows, explain.Row{User: name})
	}
	for _, roles := range f.roles {
		row := explain.Row{Roles: []string{}, Provider: f.provider}
		if roles != "" {
			row.Roles = strings.Split(roles, ",")
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// columns returns the names of the routes to print: those of the flags, or all.
func (f *accessFlags) columns(all []*explain.Access) ([]string, error) {
	var known []string
	for _, a := range all {
		for _, route := range a.Routes {
			if name := route.Label(); !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	for _, name := range f.routes {
		if !slices.Contains(known, name) {
			return nil, unknownName("--route", "route", name, known)
		}
	}
	if f.routes != nil {
		return f.routes, nil
	}
	return known, nil
}

// unknownName is the error of a flag with a name that no configuration has.
func unknownName(flag, kind, name string, known []string) error {
	problem := fmt.Sprintf("%s: there is no %s %q", flag, kind, name)
	if near, ok := strictyaml.Nearest(name, known); ok {
		problem += fmt.Sprintf("; did you mean %q?", near)
	}
	return &usageError{errors.New(problem)}
}

// accessOf is the user of a row as JSON.
type accessOf struct {
	User  string    `json:"user,omitempty"`
	Roles *[]string `json:"roles,omitempty"`
	Route string    `json:"route"`
}

func newAccessOf(row *explain.Row, route string) accessOf {
	of := accessOf{User: row.User, Route: route}
	if row.User == "" {
		of.Roles = &row.Roles
	}
	return of
}

// rowText names the user of a row.
func rowText(row *explain.Row) string {
	if row.User == "" {
		return printable("roles " + strings.Join(row.Roles, ","))
	}
	return printable(row.User)
}

// cellText writes a cell for people.
func cellText(c *explain.Cell) string {
	switch {
	case c.StepUp != (policy.Demand{}):
		return c.Outcome + " (" + c.StepUp.String() + ")"
	case c.Conditions != nil:
		return c.Outcome + " (" + strings.Join(c.Conditions, ", ") + ")"
	}
	return c.Outcome
}

// accessCell is a cell as JSON.
type accessCell struct {
	accessOf
	Outcome    string   `json:"outcome"`
	StepUp     *stepUp  `json:"step_up,omitempty"`
	Conditions []string `json:"conditions"`
}

func (f *accessFlags) printAccess(w io.Writer, a *explain.Access, rows []explain.Row, routes []string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells := []accessCell{}
	header := "USER"
	for _, name := range routes {
		header += "\t" + printable(name)
	}
	fmt.Fprintln(table, header)
	for i := range rows {
		line := rowText(&rows[i])
		for _, name := range routes {
			cell, err := a.Cell(&rows[i], a.Route(name))
			if err != nil {
				return err
			}
			line += "\t" + cellText(&cell)
			one := accessCell{newAccessOf(&rows[i], name), cell.Outcome, nil, append([]string{}, cell.Conditions...)}
			if cell.StepUp != (policy.Demand{}) {
				one.StepUp = &stepUp{cell.StepUp.Factors, cell.StepUp.Seconds()}
			}
			cells = append(cells, one)
		}
		fmt.Fprintln(table, line)
	}
	if f.asJSON {
		return encodeJSON(w, map[string]any{"access": cells})
	}
	return table.Flush()
}

// accessDiff is a cell that differs, as JSON.
type accessDiff struct {
	accessOf
	Now    string `json:"now"`
	Other  string `json:"other"`
	Change string `json:"change"`
}

func (f *accessFlags) printDiff(w io.Writer, both []*explain.Access, rows []explain.Row, routes []string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	diff := []accessDiff{}
	for i := range rows {
		for _, name := range routes {
			d, err := both[0].Compare(both[1], &rows[i], name)
			if err != nil {
				return err
			}
			if d.Change == "" || f.opensOnly && d.Change != explain.ChangeOpens {
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s -> %s\n", d.Change, rowText(&rows[i]), printable(name),
				cellText(&d.Now), cellText(&d.Other))
			diff = append(diff, accessDiff{newAccessOf(&rows[i], name), d.Now.Outcome, d.Other.Outcome, d.Change})
		}
	}
	var err error
	if f.asJSON {
		err = encodeJSON(w, map[string]any{"diff": diff})
	} else {
		err = table.Flush()
	}
	if err == nil && len(diff) > 0 {
		return &printedError{1}
	}
	return err
}

// encodeJSON prints a value for programs.
func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
