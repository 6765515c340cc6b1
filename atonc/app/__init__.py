"""What each verb does, one file a job: between the parsing in verbs/ and the rooms that know how."""
