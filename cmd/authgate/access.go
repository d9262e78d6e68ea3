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
	path, other, provider              string
	now                                func() time.Time
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
	f.now = atFlag(cmd)
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	flags.StringVar(&f.other, "diff", "", "print what differs in another configuration `FILE`")
	flags.BoolVar(&f.opensOnly, "opens", false, "with --diff, only where it opens")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.path, f.placehold = *path, *placeholders
		return f.run(cmd)
	}
	return cmd
}

// atFlag adds the flag --at, and returns the clock of its time.
func atFlag(cmd *cobra.Command) func() time.Time {
	at := timeFlag(cmd, "at", "the time at which accounts and roles may have ended, in RFC 3339 (default: now)")
	return func() time.Time {
		if at.IsZero() {
			return time.Now()
		}
		return *at
	}
}

func (f *accessFlags) run(cmd *cobra.Command) error {
	diffs := cmd.Flags().Changed("diff")
	switch {
	case f.opensOnly && !diffs:
		return &usageError{errors.New("--opens needs --diff: it is about what another configuration opens")}
	case cmd.Flags().Changed("provider") && len(f.roles) == 0:
		return &usageError{errors.New("--provider needs --roles: it is about made-up users")}
	}
	paths := []string{f.path}
	if diffs {
		paths = append(paths, f.other)
	}
	all := make([]*explain.Access, len(paths))
	for i, path := range paths {
		cfg, _, err := loadConfig(cmd, path, config.Environment{Placeholders: f.placehold})
		if err != nil {
			return err
		}
		explainer, err := gateway.NewExplainerAt(cfg, f.now)
		if err != nil {
			return err
		}
		defer explainer.Close()
		if all[i] = explainer.Access(); f.next {
			all[i].UseNext()
		}
	}
	rows, routes, err := f.choose(all)
	if err != nil {
		return err
	}
	if diffs {
		err = f.printDiff(cmd.OutOrStdout(), all[0], all[1], rows, routes)
	} else {
		err = f.printCells(cmd.OutOrStdout(), all[0], rows, routes)
	}
	if mistake, ok := errors.AsType[*explain.Mistake](err); ok {
		return &usageError{mistake}
	}
	return err
}

// choose returns the users and the names of routes to print: those of the flags, or all of the configurations.
func (f *accessFlags) choose(all []*explain.Access) (rows []explain.Row, routes []string, err error) {
	var users []string
	for _, a := range all {
		for i := range a.Known.Config.Accounts.Users {
			users = append(users, a.Known.Config.Accounts.Users[i].Username)
		}
		for _, route := range a.Routes {
			routes = append(routes, route.Label())
		}
	}
	if users, err = chooseNames("--user", "local account", f.users, users, policy.NormalName); err != nil {
		return nil, nil, err
	}
	if routes, err = chooseNames("--route", "route", f.routes, routes, strings.Clone); err != nil {
		return nil, nil, err
	}
	for _, name := range users {
		if f.roles == nil || f.users != nil {
			rows = append(rows, explain.Row{User: name})
		}
	}
	for _, roles := range f.roles {
		row := explain.Row{Roles: []string{}, Provider: f.provider}
		if roles != "" {
			row.Roles = strings.Split(roles, ",")
		}
		rows = append(rows, row)
	}
	return rows, routes, nil
}

// chooseNames returns the names of a flag, all of which must be known, or each known name once without the flag.
// Names of which normal makes the same are one.
func chooseNames(flag, kind string, given, known []string, normal func(string) string) (names []string, err error) {
	for _, name := range given {
		at := slices.IndexFunc(known, func(one string) bool { return normal(one) == normal(name) })
		if at < 0 {
			problem := fmt.Sprintf("%s: there is no %s %q", flag, kind, name)
			if near, ok := strictyaml.Nearest(name, known); ok {
				problem += fmt.Sprintf("; did you mean %q?", near)
			}
			return nil, &usageError{errors.New(problem)}
		}
		names = append(names, known[at])
	}
	for _, name := range known {
		if given == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// rowText names the user of a row.
func rowText(row explain.Row) string {
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
	explain.Row
	Route      string   `json:"route"`
	Outcome    string   `json:"outcome"`
	StepUp     *stepUp  `json:"step_up,omitempty"`
	Conditions []string `json:"conditions"`
}

func (f *accessFlags) printCells(w io.Writer, a *explain.Access, rows []explain.Row, routes []string) error {
	cells, lines := []accessCell{}, []string{"USER"}
	for _, name := range routes {
		lines[0] += "\t" + printable(name)
	}
	for _, row := range rows {
		line := rowText(row)
		for _, name := range routes {
			cell, err := a.Cell(&row, a.Route(name))
			if err != nil {
				return err
			}
			line += "\t" + cellText(&cell)
			conditions := append([]string{}, cell.Conditions...)
			cells = append(cells, accessCell{row, name, cell.Outcome, newStepUp(cell.StepUp), conditions})
		}
		lines = append(lines, line)
	}
	return f.print(w, lines, map[string]any{"access": cells})
}

// accessDiff is a cell that differs, as JSON.
type accessDiff struct {
	explain.Row
	Route  string `json:"route"`
	Now    string `json:"now"`
	Other  string `json:"other"`
	Change string `json:"change"`
}

func (f *accessFlags) printDiff(w io.Writer, a, other *explain.Access, rows []explain.Row, routes []string) error {
	diff, lines := []accessDiff{}, []string(nil)
	for _, row := range rows {
		for _, name := range routes {
			d, err := a.Compare(other, &row, name)
			if err != nil {
				return err
			}
			if d.Change == "" || f.opensOnly && d.Change != explain.ChangeOpens {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s -> %s", d.Change, rowText(row), printable(name),
				cellText(&d.Now), cellText(&d.Other)))
			diff = append(diff, accessDiff{row, name, d.Now.Outcome, d.Other.Outcome, d.Change})
		}
	}
	if err := f.print(w, lines, map[string]any{"diff": diff}); err != nil || len(diff) == 0 {
		return err
	}
	return &printedError{1}
}

// print prints lines with tabs between their columns, or an object.
func (f *accessFlags) print(w io.Writer, lines []string, object any) error {
	if f.asJSON {
		return encodeJSON(w, object)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(table, line)
	}
	return table.Flush()
}

// encodeJSON prints a value for programs.
func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
