"""Value types of campaigns, such as the requests of campaign owners and the outcomes of tasks."""
