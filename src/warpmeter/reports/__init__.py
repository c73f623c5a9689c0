"""What scheduler, page and command share of reports: whose period is due when, what is kept of each, what is said."""
