"""What is a retrieval change worth on your own documents?"""
